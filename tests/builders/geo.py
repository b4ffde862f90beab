"""Chosen topics and their destinations, without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from causeway import geo
from causeway.config import LinkSettings
from causeway.errors import CausewayError
from causeway.geo.topics import ChosenTopicChange, Done
from causeway.link_topics import Directive, DirectiveKind, LinkDirectives, Scope
from causeway.model import State
from causeway.status import Snapshot
from tests.builders.served import settings
from tests.builders.status import full, link, partition
from tests.harness.directives import directive
from tests.harness.statuses import replace

GEO = replace(settings(), geo=True, topics=())


def chosen(topic: str, kind: DirectiveKind = DirectiveKind.MIRROR) -> Directive:
    return directive(kind, Scope(topic), at=5, why="Lyon")


def look() -> Snapshot:
    orders = replace(partition(0, State.PAUSED), topic="orders", target_topic="A.orders")
    said = (chosen("orders"), chosen("orders", DirectiveKind.PAUSE), chosen("bills"))
    return full(replace(link(orders), directives=LinkDirectives.of(said)))


class Clusters:
    """Stand in for the functions that ask them."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.error: CausewayError | None = None
        self.refused: str | None = None

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("add", "remove", "pause", "resume"):
            monkeypatch.setattr(geo, f"{name}_topics", self._door(name))
        monkeypatch.setattr(geo, "available_topics", self.available)

    def available(self, link: LinkSettings, match: str) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        return [name for name in ("bills", "items", "users") if match.casefold() in name]

    def _door(self, action: str) -> Any:
        def ask(link: LinkSettings, names: Sequence[str], **said: Any) -> Done:
            assert link == GEO
            if self.error is not None:
                raise self.error
            self.asked.append({"action": action, "names": list(names), **said})
            return Done(
                destination="B",
                action=action,
                topics=tuple(
                    ChosenTopicChange(topic=n, target=f"A.{n}", changed=True) for n in names
                ),
                driver="ops1",
                acted=True,
                refused=self.refused,
            )

        return ask
