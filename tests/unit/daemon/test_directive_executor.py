"""When what people ask of a link is known, done, and waited for."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import fences, geo_topics
from causeway.daemon import Sides, directive_executor, overdue
from causeway.daemon.directive_executor import DirectiveExecutor
from causeway.daemon.partitions import Reconciler, Registry
from causeway.errors import AuthorizationError, CausewayError
from causeway.link_topics import (
    Directive,
    DirectiveKind,
    DirectivePlan,
    DirectivesRecord,
    EndDirective,
    FenceDirective,
    LinkDirectives,
    PauseDirective,
    Scope,
    ThrottleDirective,
    WrittenDirectives,
    renew_promotion,
)
from causeway.model import NO_TOPIC_ID, State, TopicPartition
from tests.builders.settings import LINK
from tests.harness.directives import directive, replace_writes

TOPIC_ID = "a" * 32
SHARERS = [fences.Sharer(cast(Cluster, None), replace(LINK, policy=LINK.policy))]
BEFORE = DirectivesRecord(link=LINK.name, topic_id=TOPIC_ID, applied=5)


class Log:
    """What a look finds; each look is counted."""

    def __init__(self, *_: object) -> None:
        self.directives, self.topic_id, self.end, self.strange = (
            LinkDirectives(),
            NO_TOPIC_ID,
            -1,
            0,
        )
        self.topic = "__causeway.A.B.directives"
        self.coming: list[tuple[int, Directive]] = []
        self.partitions = Partitions()  # of the driver that looks
        self.looks = 0
        self.refused: CausewayError | None = None
        self.registry = Registry("A->B")
        self._looked = threading.Condition()
        # What the next look reads: changes of the directives, each with the end after it.
        self._read: list[tuple[Callable[[LinkDirectives], LinkDirectives], int]] = []

    def look(self) -> list[tuple[int, Directive]]:
        with self._looked:
            self.looks += 1
            self._looked.notify_all()
            if self.refused is not None:
                raise self.refused
            come, self.coming = self.coming, []
            for directives, end in self._read:
                self.directives, self.end = directives(self.directives), end
                self.topic_id = TOPIC_ID if self.topic_id == NO_TOPIC_ID else self.topic_id
            self._read.clear()
            return come

    def await_looks(self, more: int) -> None:
        """So many from now on: what was there before has been acted upon."""
        with self._looked:
            until = self.looks + more
            assert self._looked.wait_for(lambda: self.looks >= until, 10)

    def comes(
        self,
        offset: int,
        kind: DirectiveKind,
        scope: Scope = Scope(),  # noqa: B008
        **fields: Any,
    ) -> None:
        with self._looked:
            wish = directive(kind, scope, **fields)
            self._read.append((lambda known: known.with_all([(wish.key, wish)]), offset + 2))
            self.coming.append((offset, wish))

    def leaves(self, offset: int, kind: DirectiveKind, scope: Scope) -> None:
        with self._looked:
            self.directives = self.directives.with_all([((kind, scope), None)])
            self.end = offset + 2


class Named:
    def bootstrap_check(self, _: float) -> SimpleNamespace:
        return SimpleNamespace(cluster_id="the source")


class Pauses:
    are_any = False

    def update(self, _: LinkDirectives) -> None:
        pass

    def pause(self) -> bool:
        return True

    def over(self) -> list[TopicPartition]:
        return []

    def renewed(self) -> list[TopicPartition]:
        return []


class Partitions:
    """For an Reconciler whose lanes let go at once."""

    def __init__(self) -> None:
        self.pauses = Pauses()
        self.restarts: list[tuple[set[Scope], set[Scope]]] = []
        self.translated: list[set[Scope]] = []
        self.refilled: list[Mapping[str, str]] = []
        self.refills = True
        self.meanwhile: Callable[[], None] = lambda: None

    def resume(self) -> None:
        pass

    def renew(self) -> bool | None:
        return None

    def restart(self, scopes: set[Scope], adopts: set[Scope], translates: set[Scope]) -> bool:
        self.restarts.append((scopes, adopts))
        self.translated.append(translates)
        self.meanwhile()
        return True

    def refill(self, topics: Mapping[str, str]) -> bool:
        self.refilled.append(topics)
        return self.refills


def choosing(monkeypatch: pytest.MonkeyPatch, *, geo: bool = True) -> LinkSettings:
    """The link of `begin` from now on: people may choose its topics, or not."""
    link = replace(LINK, geo=geo)
    monkeypatch.setattr(sys.modules[__name__], "LINK", link)
    return link


Before = DirectivesRecord | DirectiveExecutor | None
Begin = Callable[[Before], tuple[DirectiveExecutor, Log]]


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    begun: list[DirectiveExecutor] = []
    log = Log()
    monkeypatch.setattr(directive_executor, "DirectiveLog", lambda *_: log)
    monkeypatch.setattr(directive_executor, "_LOOK_S", 0.005)

    def new(before: Before) -> tuple[DirectiveExecutor, Log]:
        nobody = cast(Cluster, Named())
        limits: list[Mapping[str | None, int]] = []
        sides = Sides(source=nobody, target=nobody, source_admin=nobody, target_admin=nobody)
        intake = cast(Reconciler, cast(Any, log.partitions))
        registry = log.registry = Registry(LINK.name)
        found = DirectiveExecutor(LINK, sides, registry, intake, limits.append, before, SHARERS)
        begun.append(found)
        return found, log

    yield new
    for each in begun:
        each.end()


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for(begin: Begin) -> None:
    found, log = begin(BEFORE)
    log.await_looks(3)
    assert not found.known.is_set()  # or what is paused would be mirrored meanwhile
    log.comes(3, DirectiveKind.STEP_DOWN)
    assert found.known.wait(60)
    log.await_looks(2)
    assert found.step_down is None  # done before we led


def test_without_such_a_topic_nothing_is_waited_for_long(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = begin(None)
    assert found.known.wait(60)
    monkeypatch.setattr(directive_executor, "_PATIENCE_S", 0.02)
    found, log = begin(BEFORE)  # somebody has deleted it
    assert found.known.wait(60)
    log.await_looks(2)
    (told,) = found.take_dirty()
    assert (told.topic_id, told.applied) == (BEFORE.topic_id, BEFORE.applied)
    assert "lost" in (told.reason or "")


def test_who_may_not_read_what_was_asked_before_mirrors_nothing(begin: Begin) -> None:
    """Its end may stand there."""
    found, log = begin(BEFORE)
    log.refused = AuthorizationError("read", "directives", "TOPIC_AUTHORIZATION_FAILED")
    log.await_looks(3)
    assert not found.known.is_set()
    (trouble,) = found.problems
    assert "TOPIC_AUTHORIZATION_FAILED" in trouble.reason
    log.refused = None
    log.comes(5, DirectiveKind.RESTART)
    assert found.known.wait(60)
    log.await_looks(2)
    assert found.problems == ()
    assert found.not_read is None


def test_a_driver_that_may_not_read_the_directives_topic_reports_it(begin: Begin) -> None:
    found, log = begin(None)
    log.refused = AuthorizationError("read", "directives", "TOPIC_AUTHORIZATION_FAILED")
    assert found.known.wait(60)
    log.await_looks(2)
    assert found.not_read is not None
    assert "TOPIC_AUTHORIZATION_FAILED" in found.not_read


def test_a_loss_that_is_acknowledged_during_a_restart_is_acknowledged_after_it(
    begin: Begin,
) -> None:
    found, log = begin(None)
    partitions = log.partitions
    orders = Scope("orders")
    log.comes(0, DirectiveKind.RESTART, orders)
    log.await_looks(2)

    def acknowledge() -> None:
        log.comes(1, DirectiveKind.RESTART, orders, adopt=True)
        log.await_looks(2)

    partitions.meanwhile = acknowledge
    assert found.carry_out()
    partitions.meanwhile = lambda: None
    assert found.carry_out()
    assert not found.carry_out()
    assert partitions.restarts == [({orders}, set()), ({orders}, {orders})]


def test_a_request_to_translate_during_a_restart_is_carried_out_after_it(begin: Begin) -> None:
    found, log = begin(None)
    partitions = log.partitions
    orders = Scope("orders")
    log.comes(0, DirectiveKind.RESTART, orders)
    log.await_looks(2)

    def translate() -> None:
        log.comes(1, DirectiveKind.RESTART, orders, translate=True)
        log.await_looks(2)

    partitions.meanwhile = translate
    assert found.carry_out()
    partitions.meanwhile = lambda: None
    assert found.carry_out()
    assert not found.carry_out()
    assert partitions.translated == [set(), {orders}]


def test_a_topic_is_filled_again_until_that_is_done(begin: Begin) -> None:
    found, log = begin(None)
    partitions = log.partitions
    log.comes(0, DirectiveKind.RESTART, Scope("orders"), refill="bb" * 16)
    assert found.wanted.wait(60)
    partitions.refills = False
    assert not found.carry_out()
    assert found.restarting(60)
    partitions.refills = True
    assert found.carry_out()
    assert not found.carry_out()
    assert partitions.refilled == [{"orders": "bb" * 16}] * 2
    assert partitions.restarts == []


def test_a_restart_is_under_way_until_both_clusters_were_looked_at(begin: Begin) -> None:
    found, log = begin(None)
    assert not found.restarting(60)
    log.comes(0, DirectiveKind.RESTART)
    assert found.wanted.wait(60)
    assert found.restarting(60)
    assert found.carry_out()
    assert found.restarting(60)
    assert not found.restarting(0)  # nobody waits for it for ever
    found.looked()
    assert not found.restarting(60)


def test_who_steps_down_does_not_wait_for_ever_for_what_was_asked_before(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, log = begin(None)
    log.comes(0, DirectiveKind.RESTART)
    log.comes(2, DirectiveKind.STEP_DOWN)
    assert found.wanted.wait(60)
    assert found.step_down is None
    monkeypatch.setattr(directive_executor, "_FIRST_S", 0.0)
    assert found.step_down is not None  # the source may be out of reach, from here alone


def ended(found: DirectiveExecutor) -> DirectiveExecutor:
    found.end()
    found._thread.join(60)
    assert not found.alive
    return found


def test_what_was_applied_before_a_reload_is_written_after_it(begin: Begin) -> None:
    found, log = begin(BEFORE)
    log.comes(6, DirectiveKind.PAUSE)
    assert found.known.wait(60)
    log.await_looks(2)
    ended(found)
    log.topic_id, log.end = NO_TOPIC_ID, -1  # the next executor has not read the topic yet
    later, _ = begin(found)
    (record,) = later.take_dirty()
    assert record.applied == 8
    later.mark_all_dirty()  # it could not be written
    assert later.take_dirty() == [record]


def test_a_driver_steps_down_after_a_reload(begin: Begin) -> None:
    found, log = begin(BEFORE)
    log.comes(6, DirectiveKind.STEP_DOWN)
    assert found.known.wait(60)
    log.await_looks(2)
    assert found.record.applied == 8, "it is not read again"
    later, _ = begin(ended(found))
    assert later.step_down is not None
    again, _ = begin(ended(later))
    assert again.step_down is not None
    again.stepped_down()
    (record,) = again.take_dirty()
    assert record.applied == 8


def test_a_driver_restarts_before_it_steps_down_also_after_a_reload(begin: Begin) -> None:
    found, log = begin(None)
    log.comes(0, DirectiveKind.RESTART)
    log.comes(2, DirectiveKind.STEP_DOWN)
    log.await_looks(2)
    later, _ = begin(ended(found))
    assert later.step_down is None
    assert later.carry_out()
    assert later.step_down is None
    later.looked()
    assert later.step_down is not None


def test_a_restart_that_was_carried_out_before_a_reload_is_not_carried_out_again(
    begin: Begin,
) -> None:
    """The restart is not applied before the next look. The next executor reads the restart again,
    and then a new restart."""
    found, log = begin(BEFORE)
    log.comes(6, DirectiveKind.RESTART, Scope("orders"))
    assert found.wanted.wait(60)
    assert found.carry_out()
    ended(found)
    log.comes(6, DirectiveKind.RESTART, Scope("orders"))
    later, _ = begin(found)
    log.await_looks(2)
    assert not later.carry_out()
    assert later.restarting(60), "the look is still to come"
    assert log.partitions.restarts == [({Scope("orders")}, set())]
    log.comes(8, DirectiveKind.RESTART, Scope("bills"))
    log.await_looks(2)
    assert later.carry_out()
    assert log.partitions.restarts[1:] == [({Scope("bills")}, set())]


def test_a_restart_in_a_recreated_topic_is_carried_out_after_a_reload(begin: Begin) -> None:
    found, log = begin(BEFORE)
    log.comes(6, DirectiveKind.RESTART, Scope("orders"))
    assert found.wanted.wait(60)
    assert found.carry_out()
    ended(found)
    log.comes(0, DirectiveKind.RESTART, Scope("bills"))
    log.topic_id = "b" * 32
    later, _ = begin(found)
    log.await_looks(2)
    assert later.carry_out()
    assert log.partitions.restarts[1:] == [({Scope("bills")}, set())]


def test_fences_whose_time_is_over_are_lifted_until_they_are_gone(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()
    lifted: list[str | None] = []

    def lift(*args: Any) -> dict[str, CausewayError | None]:
        (fence,) = args[3]
        assert args[4] == SHARERS, "who needs the rule still gets it"
        lifted.append(fence.scope.topic)
        tried.set()
        return {"orders": AuthorizationError("delete ACL") if len(lifted) == 1 else None}

    monkeypatch.setattr(fences, "lift", lift)
    monkeypatch.setattr(overdue, "_AGAIN_S", 0.0)
    found, log = begin(None)
    over, later = (
        FenceDirective(scope=Scope(topic), who="anna@ops", at=1, until=until)
        for topic, until in (("orders", 1_000), ("bills", 2**60))
    )
    log.comes(0, DirectiveKind.FENCE)
    log.directives = LinkDirectives({over.key: over, later.key: later})
    assert tried.wait(60)
    log.await_looks(2)
    assert set(lifted) == {"orders"}
    log.directives = LinkDirectives({later.key: later})
    log.await_looks(2)
    before = len(lifted)
    log.await_looks(2)
    assert len(lifted) == before
    assert found.take_dirty()[-1].reason is None


def test_a_promotion_whose_command_has_died_is_released(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that lives renews it; one of a version before never did, and holds on."""
    written: list[DirectivePlan] = []
    monkeypatch.setattr(overdue, "PROMOTION_HOLD_S", 0.0)
    monkeypatch.setattr(overdue, "_AGAIN_S", 0.0)
    _, log = begin(None)

    def write(
        _: Cluster, __: LinkSettings, decide: Callable[[LinkDirectives], DirectivePlan]
    ) -> WrittenDirectives:
        made = decide(log.directives)
        written.append(made)
        log.directives = log.directives.with_all(made.changes)
        return WrittenDirectives(made, 2, TOPIC_ID)

    replace_writes(monkeypatch, write)
    before, dead, done = (
        EndDirective(scope=Scope(topic), who="anna@ops", at=1, how=how, until=until)
        for topic, how, until in (
            ("bills", State.PROMOTING, -1),
            ("orders", State.PROMOTING, 1_000),
            ("shops", State.PROMOTED, -1),
        )
    )
    log.comes(0, DirectiveKind.FENCE)
    log.await_looks(1)
    log.directives = LinkDirectives({each.key: each for each in (before, dead, done)})
    log.await_looks(3)
    assert list(log.directives.by_key.values()) == [before, done]
    assert [each.changes for each in written] == [((dead.key, None),)]


def test_a_promotion_that_is_renewed_holds_its_mirror(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    replace_writes(monkeypatch, lambda *_: written.append(_))
    monkeypatch.setattr(directive_executor, "_LOOK_S", 0.001)
    monkeypatch.setattr(overdue, "PROMOTION_HOLD_S", 0.2)
    _, log = begin(None)
    wish = EndDirective(who="anna@ops", at=1, how=State.PROMOTING, until=1, run="one")
    log.comes(0, DirectiveKind.FENCE)
    ends = time.monotonic() + 0.5
    while time.monotonic() < ends:
        active = renew_promotion(LinkDirectives({wish.key: wish}), Scope(), "one", wish.until + 1)
        ((_, renewed),) = active.changes
        assert isinstance(renewed, EndDirective)
        wish = renewed
        log.directives = LinkDirectives({wish.key: wish})
        log.await_looks(1)
    assert not written


def test_a_cutover_under_way_is_reported_once(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "causeway.link")
    _, log = begin(None)
    for offset in (0, 2, 4):
        log.comes(offset, DirectiveKind.CUTOVER, run="one")
        log.await_looks(2)
    assert [record.message for record in caplog.records].count("directive") == 1


def test_what_is_chosen_counts_at_once_and_is_looked_for(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is no longer. What stood at the start counts before anything is looked for."""
    link = choosing(monkeypatch)
    found, log = begin(None)
    assert found.known.wait(60)
    log.comes(0, DirectiveKind.MIRROR, Scope("orders"))
    assert found.wanted.wait(60)
    assert log.registry.chosen == {"orders"}
    assert log.registry.with_chosen(link).decide_topic("orders").target_name == "A.orders"
    assert found.carry_out()
    assert not found.carry_out()  # it is being looked for
    assert found.take_dirty() == []
    found.looked()
    log.await_looks(2)
    (told,) = found.take_dirty()
    assert told.applied == log.end
    log.leaves(2, DirectiveKind.MIRROR, Scope("orders"))
    log.await_looks(2)
    assert found.carry_out()
    assert log.registry.chosen == frozenset()


def test_what_others_of_this_process_read_first_is_looked_for_all_the_same(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the page does, which asks what could be chosen: nothing has acted on it by then."""
    link = choosing(monkeypatch)
    found, log = begin(None)
    monkeypatch.setattr(
        geo_topics, "DirectiveLog", lambda *_: SimpleNamespace(look=list, directives=log.directives)
    )
    assert found.known.wait(60)
    log.comes(0, DirectiveKind.MIRROR, Scope("orders"))
    assert found.wanted.wait(60)
    assert found.carry_out()
    found.looked()
    log.await_looks(2)
    assert found.take_dirty()
    found.wanted.clear()
    plain = log.look

    def look() -> list[tuple[int, Directive]]:
        monkeypatch.setattr(log, "look", plain)
        log.leaves(2, DirectiveKind.MIRROR, Scope("orders"))
        assert not geo_topics.chosen(geo_topics.learn(cast(Cluster, Named()), link))
        return plain()

    monkeypatch.setattr(log, "look", look)
    assert found.wanted.wait(60)
    assert found.take_dirty() == []
    assert found.carry_out()
    assert log.registry.chosen == frozenset()


def test_what_is_chosen_is_looked_for_also_where_a_restart_fails_first(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosing(monkeypatch)

    def fail(*_: object) -> bool:
        raise CausewayError("restart", "orders", "no", retriable=True)

    found, log = begin(None)
    assert found.known.wait(60)
    log.comes(0, DirectiveKind.MIRROR, Scope("orders"))
    log.comes(2, DirectiveKind.RESTART)
    log.await_looks(2)
    with monkeypatch.context() as patch:
        patch.setattr(Partitions, "restart", fail)
        with pytest.raises(CausewayError):
            found.carry_out()
    monkeypatch.setattr(Partitions, "restart", lambda *_: False)
    assert found.carry_out()


def test_what_is_chosen_no_more_is_so_before_its_pause_is_over(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be resumed, and copied until the next look."""
    choosing(monkeypatch)
    seen: list[tuple[bool, frozenset[str]]] = []

    def update(_: object, active: LinkDirectives) -> None:
        seen.append((active.pause_of(Scope("orders")) is not None, log.registry.chosen))

    monkeypatch.setattr(Pauses, "update", update)
    found, log = begin(None)
    assert found.known.wait(60)
    log.comes(0, DirectiveKind.MIRROR, Scope("orders"))
    log.comes(2, DirectiveKind.PAUSE, Scope("orders"))
    log.await_looks(2)
    with log._looked:
        log.directives = LinkDirectives()
        log.end = 9
    log.await_looks(2)
    assert (True, frozenset({"orders"})) in seen
    paused = seen.index((True, frozenset({"orders"})))
    assert (False, frozenset({"orders"})) not in seen[paused:]
    assert found.carry_out()


@pytest.mark.parametrize(
    ("geo", "cluster", "why"),
    [
        (False, "the source", "set A->B.causeway.geo = true"),
        (True, "another", "topics were chosen for the cluster another by anna@ops since"),
    ],
)
def test_a_link_without_chosen_topics_refuses_choices_and_mirrors_none(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, geo: bool, cluster: str, why: str
) -> None:
    choosing(monkeypatch, geo=geo)
    found, log = begin(None)
    log.comes(0, DirectiveKind.ORIGIN, cluster=cluster)
    log.comes(2, DirectiveKind.MIRROR, Scope("orders"))
    log.await_looks(3)
    assert log.registry.chosen == frozenset()
    told = [each.reason for each in found.take_dirty()]
    assert told
    assert why in str(told[-1])


def test_a_source_that_does_not_say_who_it_is_keeps_no_pause_from_being_heard(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CausewayError("connect", "A", "no broker answered", retriable=True)

    monkeypatch.setattr(Named, "bootstrap_check", fail)
    choosing(monkeypatch)
    found, log = begin(None)
    log.comes(0, DirectiveKind.MIRROR, Scope("orders"))
    log.comes(2, DirectiveKind.RESTART)
    assert found.wanted.wait(60)
    assert found.known.wait(60)
    told = [each.reason for each in found.take_dirty()]
    assert "no broker answered" in str(told[-1])
    assert log.registry.chosen == frozenset()


def test_events_say_what_was_asked_by_whom() -> None:
    """Of a part of what is paused, that it goes on; of an end, how."""
    asked = PauseDirective(scope=Scope("orders"), who="anna@ops", why="loud", at=0)
    by = "anna@ops since 1970-01-01T00:00:00Z: loud"
    assert directive_executor._about(asked) == {"what": "pause", "scope": "orders", "by": by}
    assert directive_executor._about(asked.replace(paused=False))["what"] == "resume"
    slow = ThrottleDirective(scope=asked.scope, who="anna@ops", at=0, bytes_per_s=2_000_000)
    assert directive_executor._about(slow)["limit"] == "2,000,000 bytes/s"
    assert directive_executor._about(slow.replace(bytes_per_s=None))["limit"] == "none"
    over = EndDirective(scope=asked.scope, who="anna@ops", at=0, how=State.FAILED_OVER)
    assert directive_executor._about(over)["what"] == "failed over"
