"""When a link has come to an end: of a bounded run, or of a time of leading."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import RunSettings
from causeway.daemon import link_parts, startup
from causeway.daemon.partitions import Found, Wish
from causeway.errors import BrokerError, TooFewBrokersError
from causeway.link_topics import ProgressContents, StepDownDirective
from causeway.model import State, TopicPartition
from tests.builders.daemon import new_link, part


class DirectiveExecutor:
    """Somebody has asked for a restart, which is under way for `since_s`."""

    since_s = 0.0

    def restarting(self, for_s: float) -> bool:
        return self.since_s < for_s


def test_what_is_let_go_of_to_be_tried_again_is_waited_for() -> None:
    link = new_link(RunSettings())
    assert not link.is_settled(60)
    link._note(Found())
    link.registry.add([part(0, State.DONE)])  # and another one, which nobody has just now
    assert link.is_settled(60)
    directing = DirectiveExecutor()
    link._directing = cast(Any, directing)
    assert not link.is_settled(60)
    directing.since_s = 61.0
    assert link.is_settled(60)


class Lead:
    """Of a driver that is to step down, one of whose lanes is slow to let go: it does so only after
    the lease was renewed."""

    losses, renewal_due, renewed, released, throttled_s = 0, True, 0, False, 0.0

    def begin(self) -> None:
        pass

    def renew(self) -> None:
        self.renewed += 1

    def release(self) -> None:
        self.released = True

    def revoke(self, _: object, timeout_s: float = 60.0) -> bool:
        assert timeout_s < 1.0, "nobody renews the lease meanwhile"
        return self.renewed > 0


def test_a_lane_that_is_slow_to_let_go_costs_no_lease() -> None:
    link, lead = new_link(RunSettings(progress_interval_s=0.01)), Lead()
    wish = StepDownDirective(who="anna@ops", at=1)
    directing = SimpleNamespace(
        step_down=wish, end=lambda: None, stepped_down=lambda: None, take_dirty=list
    )
    link.leadership = link._intake = cast(Any, lead)
    link._new_directing = cast(Any, lambda _: directing)
    link.__dict__["_new_discoverer"] = lambda _: SimpleNamespace(alive=False)
    link._term(ProgressContents())
    assert lead.released


def test_a_driver_steps_aside_although_its_settings_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directing = SimpleNamespace(
        step_down=StepDownDirective(who="anna@ops", at=1),
        alive=False,
        end=lambda: None,
        stepped_down=lambda: None,
        take_dirty=list,
    )
    followed: list[object] = []

    def direct(*given: object, **_: object) -> object:
        followed.append(given[-1])
        return directing

    monkeypatch.setattr(link_parts, "DirectiveExecutor", direct)
    link, lead = new_link(RunSettings(progress_interval_s=0.01)), Lead()
    work, waited = link._parts.work, list[bool]()

    def acquire(*_: object) -> ProgressContents:
        link.change(replace(work, link=replace(work.link, replication_factor=1)))
        return ProgressContents()

    def let_others(halt: threading.Event, _: float) -> None:
        waited.append(not halt.is_set())
        link.stop()

    lead.__dict__.update(acquire=acquire, let_others=let_others)
    link.leadership = link._intake = cast(Any, lead)
    link._apis = cast(Any, SimpleNamespace(check=lambda: None))
    link.__dict__["_new_discoverer"] = lambda _: SimpleNamespace(alive=False)
    link._lead()
    assert (lead.released, link.settings.replication_factor) == (True, 1)
    assert waited == [True]
    assert followed == [None, directing]


def test_settings_that_change_while_another_driver_leads_do_not_adopt_twice() -> None:
    link = new_link(RunSettings(), Wish(adopt=True))
    decided, waiting = TopicPartition("orders", 0), TopicPartition("bills", 0)
    claimer = link._intake._claimer
    claimer._first = {"orders": 1, "bills": 1}
    claimer._decided.add(decided)
    work = link._parts.work
    for replicas in (1, 2):
        link.change(replace(work, link=replace(work.link, replication_factor=replicas)))
        assert link._take_next()
        claimer = link._intake._claimer
        claimer._first = claimer._at_first({"orders": 2, "bills": 2})
        assert not claimer.wish_of(decided).adopt
        assert not claimer.wish_of(TopicPartition("orders", 1)).adopt
        assert claimer.wish_of(waiting).adopt


def test_a_replication_factor_that_brokers_lack_is_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where they are only restarting, nothing ends; where the cluster is too small, it says so."""
    lacking = BrokerError("create topic", "orders", code=38, name="INVALID_REPLICATION_FACTOR")
    new_link(RunSettings())._fail(TooFewBrokersError("create topic", "orders"))
    link = new_link(RunSettings())
    link._fail(lacking)
    assert link.failure is None
    found = Found()
    found.trouble("orders", lacking)
    for _ in range(2):
        link._note(found)
        assert link.failure is None
        assert not link.is_settled(60)
    monkeypatch.setattr(startup, "PATIENCE_S", 0.0)
    link._note(found)
    assert link.failure is lacking

    refused = BrokerError("create topic", "orders", code=44, name="POLICY_VIOLATION")
    at_once = new_link(RunSettings())
    at_once._fail(refused)
    assert at_once.failure is refused
