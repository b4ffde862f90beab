"""What both clusters write under one name is not promoted, nor cut over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from causeway.errors import ConfigError
from causeway.formats import load
from causeway.link_topics import LinkDirectives, Scope
from causeway.operate.directives import Wanted
from causeway.operate.failover import FailbackStep, promote, refuse_mingled
from causeway.operate.failover.ending import Ending
from causeway.operate.failover.failing_back import LinkFailback

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
    settings = load(path, environment={})
    with pytest.raises(ConfigError, match=r"both clusters write its topics.*provenance\.md"):
        promote(settings)
    with pytest.raises(ConfigError, match=r"both clusters write its topics.*provenance\.md"):
        refuse_mingled(settings.links[0])


def test_one_that_had_ended_before_can_be_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was a mirror that went one way only then."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    settings = load(path, environment={})
    link, _ = settings.links
    monkeypatch.setattr("causeway.operate.directives.act.ProgressTopic", Unasked)
    monkeypatch.setattr("causeway.operate.failover.ending.DirectiveLog", Unasked)
    connect = cast(Any, nothing)
    ending = Ending(link, Scope(), connect, 10.0, nothing)
    move = LinkFailback(settings, ending, connect, Wanted())
    found = move.run(create=False, turn_round=False)
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
