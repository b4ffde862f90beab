"""What both clusters write under one name is not promoted, nor cut over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from causeway.errors import ConfigError
from causeway.formats import load
from causeway.link_topics import LinkDirectives, Scope
from causeway.operate.failover import FailbackStep
from causeway.operate.failover.ending import Ending
from causeway.operate.failover.failing_back import LinkFailback
from causeway.operate.failover.failing_over import LinkFailover
from causeway.operate.failover.promotion import LinkPromotion
from causeway.operate.failover.results import Keep

FILE = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
B->A.enabled = true
replication.policy.class = IdentityReplicationPolicy
causeway.provenance = header
"""


def nothing(_: object) -> None:
    pass


def test_its_mirrors_do_not_end(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    link, _ = load(path, environment={}).links

    def nobody(*_: Any, **__: Any) -> Any:
        raise AssertionError("no cluster is asked")

    nowhere = cast(Any, nobody)
    with pytest.raises(ConfigError, match=r"both clusters write its topics.*provenance\.md"):
        LinkPromotion.open(link, Scope(), nowhere, 10.0, nothing, None, dry_run=False)
    with pytest.raises(ConfigError, match=r"both clusters write its topics.*provenance\.md"):
        LinkFailover.open(link, Scope(), nowhere, 10.0, nothing)


def test_one_that_had_ended_before_can_be_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was a mirror that went one way only then."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    settings = load(path, environment={})
    link, _ = settings.links
    monkeypatch.setattr("causeway.operate.failover.ending.ProgressTopic", Unasked)
    monkeypatch.setattr("causeway.operate.failover.ending.DirectiveLog", Unasked)
    connect = cast(Any, nothing)
    ending = Ending(link, Scope(), connect, 10.0, nothing)
    move = LinkFailback(settings, ending, connect, "anna@ops")
    found = move.run(Keep(), create=False, turn_round=False, wait_s=0)
    assert found.step is FailbackStep.GOES_ON


class Unasked:
    """A topic that is not there."""

    directives = LinkDirectives()

    def __init__(self, *_: object) -> None:
        pass

    def exists(self) -> bool:
        return False

    def look(self) -> None:
        pass
