"""Which command holds the lock of a cutover."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from causeway.errors import ConflictError
from causeway.link_topics import CutoverDirective
from causeway.operate.cutover.lock import CutoverLock
from tests.builders.cluster import StubCluster
from tests.builders.settings import LINK

ANOTHER_BOOT = "another-boot/4026531836/17/1#1"


class Target(StubCluster):
    """With the directives of a link."""

    @property
    def owner(self) -> str | None:
        found = self.directives(LINK).get(CutoverDirective)
        return None if found is None else found.who

    def lock(self, who: str, *, takes: bool = False) -> CutoverLock:
        return CutoverLock(self, LINK, who, takes=takes)

    def left_by(self, run: str, for_s: float = 30.0) -> None:
        """Anna's command, which was killed, had the lock for so long."""
        now = int(time.time() * 1000)
        until = now + round(for_s * 1000)
        left = CutoverDirective(who="anna@ops", at=now, until=until, run=run)
        self.write(LINK, left)


@pytest.fixture
def target() -> Target:
    return Target()


def test_a_second_command_gets_an_error_that_names_the_owner(target: Target) -> None:
    with target.lock("anna@ops") as first:
        with pytest.raises(ConflictError, match="being cut over by anna@ops"):
            target.lock("ben@ops").__enter__()
        first.check()
        assert target.owner == "anna@ops"
    assert target.owner is None
    with target.lock("ben@ops"):
        assert target.owner == "ben@ops"


def test_a_lock_whose_time_is_over_is_taken_by_another_user(target: Target) -> None:
    target.left_by(ANOTHER_BOOT, for_s=0.0)
    assert target.owner == "anna@ops"
    with target.lock("ben@ops"):
        assert target.owner == "ben@ops"


@pytest.mark.parametrize("who", ["anna@ops", "ben@ops"])
def test_a_lock_of_a_process_that_ended_on_this_machine_is_taken_at_once(
    target: Target, who: str
) -> None:
    target.left_by(f"{of_a_process_that_has_ended()}#1")

    with target.lock(who):
        assert target.owner == who


def test_a_lock_of_a_machine_that_is_gone_is_taken_by_the_same_user_alone(target: Target) -> None:
    """A container, or a machine that was started again: nothing tells whether it is over."""
    target.left_by(ANOTHER_BOOT)

    with pytest.raises(ConflictError, match="being cut over by anna@ops"):
        target.lock("ben@ops").__enter__()
    with target.lock("anna@ops"):
        assert target.owner == "anna@ops"
        with pytest.raises(ConflictError, match="lock is taken by anna@ops"):
            target.lock("anna@ops").refuse_others(target.directives(LINK))


def test_a_second_command_of_the_same_user_gets_an_error(target: Target) -> None:
    with target.lock("anna@ops") as first:
        with pytest.raises(ConflictError, match="being cut over by anna@ops"):
            target.lock("anna@ops").__enter__()
        first.check()


def of_a_process_that_has_ended() -> str:
    say = "from causeway.daemon import processes; print(processes.fingerprint())"
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_undo_takes_the_lock_and_the_other_command_ends(target: Target) -> None:
    with target.lock("anna@ops") as first:
        with target.lock("ben@ops", takes=True) as second, second.writing():
            assert target.owner == "ben@ops"
            with pytest.raises(ConflictError, match="being cut over by ben@ops"), first.writing():
                raise AssertionError("nothing is written any more")
        assert target.owner is None, "it gives back its own alone"


def test_a_command_whose_lock_was_taken_and_released_ends_no_mirror(target: Target) -> None:
    with target.lock("anna@ops") as first:
        first.refuse_others(target.directives(LINK))
        with (
            target.lock("ben@ops", takes=True),
            pytest.raises(ConflictError, match="taken by ben@ops"),
        ):
            first.refuse_others(target.directives(LINK))
        with pytest.raises(ConflictError, match="an undo"):
            first.refuse_others(target.directives(LINK))


def test_a_command_whose_lock_was_taken_leaves_the_lock_of_the_new_owner(target: Target) -> None:
    with ExitStack() as stack:
        with target.lock("anna@ops"):
            stack.enter_context(target.lock("ben@ops", takes=True))
        assert target.owner == "ben@ops"
