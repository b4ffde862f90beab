"""Whose lock it is to cut a link over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from causeway.config import LinkSettings
from causeway.errors import ConflictError
from causeway.link_topics import THE_LINK, DirectiveKind, DirectivePlan, LinkDirectives
from causeway.operate.cutover.lock import CutoverLock
from tests.harness.daemon import link
from tests.harness.directives import replace_writes

KEY = DirectiveKind.CUTOVER, THE_LINK


class Log:
    """Stands in for the directives topic."""

    def __init__(self) -> None:
        self.directives = LinkDirectives()

    def write(self, _: Any, __: Any, decide: Callable[[LinkDirectives], DirectivePlan]) -> None:
        self.directives = self.directives.with_all(decide(self.directives).changes)

    @property
    def whose(self) -> str | None:
        found = self.directives.by_key.get(KEY)
        return None if found is None else found.who


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    replace_writes(monkeypatch, log.write)
    return log


def lock(who: str, *, takes: bool = False) -> CutoverLock:
    mirror: LinkSettings = link("127.0.0.1:1", "127.0.0.1:2", ".*")
    target: Any = None
    return CutoverLock(target, mirror, who, takes=takes)


def test_the_second_is_told_by_whom_it_is_cut_over(log: Log) -> None:
    with lock("anna@ops") as first:
        with pytest.raises(ConflictError, match="being cut over by anna@ops"):
            lock("ben@ops").__enter__()
        first.check()
        assert log.whose == "anna@ops"
    assert log.whose is None
    with lock("ben@ops"):
        assert log.whose == "ben@ops"


def test_one_that_died_holds_nobody_up_for_long(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = lock("anna@ops")
    dead._write(0.0)
    assert log.whose == "anna@ops"
    with lock("ben@ops"):
        assert log.whose == "ben@ops"


@pytest.mark.parametrize("who", ["anna@ops", "ben@ops"])
def test_after_a_kill_who_is_on_that_machine_may_call_again_at_once(log: Log, who: str) -> None:
    dead = lock("anna@ops")
    dead._run = f"{of_a_process_that_has_ended()}#1"
    dead._write()

    with lock(who):
        assert log.whose == who


def test_a_kill_on_a_machine_that_is_gone_holds_up_others_but_not_the_same_person(log: Log) -> None:
    """A container, or a machine that was started again: nothing tells whether it is over."""
    dead = lock("anna@ops")
    dead._run = "another-boot/4026531836/17/1#1"
    dead._write()

    with pytest.raises(ConflictError, match="being cut over by anna@ops"):
        lock("ben@ops").__enter__()
    with lock("anna@ops"):
        assert log.whose == "anna@ops"
        with pytest.raises(ConflictError, match="lock is taken by anna@ops"):
            dead.refuse_others(log.directives)


def test_the_same_person_has_one_command_at_a_time(log: Log) -> None:
    with lock("anna@ops") as first:
        with pytest.raises(ConflictError, match="being cut over by anna@ops"):
            lock("anna@ops").__enter__()
        first.check()


def of_a_process_that_has_ended() -> str:
    say = "from causeway.daemon import processes; print(processes.fingerprint())"
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_undo_waits_for_nobody_and_the_other_ends(log: Log) -> None:
    with lock("anna@ops") as first:
        with lock("ben@ops", takes=True) as second, second.writing():
            assert log.whose == "ben@ops"
            with pytest.raises(ConflictError, match="being cut over by ben@ops"), first.writing():
                raise AssertionError("nothing is written any more")
        assert log.whose is None, "it gives back its own alone"


def test_nothing_ends_by_one_whose_turn_was_taken_and_given_back(log: Log) -> None:
    with lock("anna@ops") as first:
        first.refuse_others(log.directives)
        with (
            lock("ben@ops", takes=True),
            pytest.raises(ConflictError, match="taken by ben@ops"),
        ):
            first.refuse_others(log.directives)
        with pytest.raises(ConflictError, match="an undo"):
            first.refuse_others(log.directives)
