"""When a bounded run has nothing more to wait for in a link."""

from __future__ import annotations

from typing import Any, cast

from causeway.config.settings import RunSettings
from causeway.daemon.lanes.fleet import Fleet
from causeway.daemon.link import Link
from causeway.daemon.partitions.claims import Wish
from causeway.daemon.partitions.discovery import Found, Sides
from causeway.daemon.partitions.transforms import Transforms
from causeway.daemon.staging import Staging
from causeway.model import State
from tests.unit.daemon.test_claims import LINK
from tests.unit.daemon.test_pauses import part


class Directing:
    """Somebody has asked for a restart, which is under way for `since_s`."""

    since_s = 0.0

    def restarting(self, for_s: float) -> bool:
        return self.since_s < for_s


def test_what_is_let_go_of_to_be_tried_again_is_waited_for() -> None:
    nobody = cast(Any, None)
    run = RunSettings()
    fleet = Fleet(run, {}, local=True)
    link = Link(
        LINK,
        run,
        Sides(source=nobody, target=nobody, source_admin=nobody, target_admin=nobody),
        fleet,
        source_key="a",
        target_key="b",
        wish=Wish(),
        bounded=True,
        transforms=Transforms(LINK, {}),
        staging=Staging((), fleet),
    )
    assert not link.is_settled(60)
    link._note(Found())
    link.registry.add([part(0, State.DONE)])  # and another one, which nobody has just now
    assert link.is_settled(60)
    directing = Directing()
    link._directing = cast(Any, directing)
    assert not link.is_settled(60)
    directing.since_s = 61.0
    assert link.is_settled(60)
