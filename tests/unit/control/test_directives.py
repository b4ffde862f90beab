"""What people ask of a mirror: what counts for a partition, and what a wish changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.errors import ProtocolError
from causeway.link_topics import (
    THE_LINK,
    Directive,
    DirectiveKind,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    PauseDirective,
    Scope,
    StepDownDirective,
    ThrottleDirective,
    decode_directive,
    encode_directive,
    plan_directive,
    plan_removal,
)
from causeway.model import State, TopicPartition
from tests.harness.directives import directive as any_directive

ORDERS, ORDERS_3 = Scope("orders"), Scope("orders", 3)
AT_3 = TopicPartition("orders", 3)

scopes = st.sampled_from(
    [THE_LINK, ORDERS, ORDERS_3, Scope("orders", 4), Scope("bills"), Scope("bills", 0)]
)
places = st.sampled_from([AT_3, TopicPartition("orders", 4), TopicPartition("bills", 0)])


def pause(scope: Scope, who: str = "anna@ops", *, paused: bool = True) -> Directive:
    return PauseDirective(scope=scope, who=who, at=1_000, paused=paused)


def throttle(scope: Scope, rate: int | None) -> Directive:
    return ThrottleDirective(scope=scope, who="anna@ops", at=1, bytes_per_s=rate)


def after(*wishes: Directive) -> LinkDirectives:
    directives = LinkDirectives()
    for wish in wishes:
        directives = directives.with_all(plan_directive(directives, wish).changes)
    return directives


def test_a_pause_holds_for_all_of_its_scope() -> None:
    assert after(pause(THE_LINK)).pause_of(AT_3)
    assert after(pause(ORDERS)).pause_of(AT_3)
    assert not after(pause(ORDERS)).pause_of(TopicPartition("bills", 3))
    assert not after(pause(ORDERS_3)).pause_of(TopicPartition("orders", 4))
    assert not after(pause(ORDERS_3)).pause_of(ORDERS)


def test_a_part_of_what_is_paused_can_be_resumed_and_paused_again() -> None:
    some = after(pause(THE_LINK), pause(ORDERS, paused=False))
    assert some.pause_of(AT_3) is None
    assert some.pause_of(TopicPartition("bills", 0))

    again = some.with_all(plan_directive(some, pause(ORDERS, "ben@ops")).changes)
    found = again.pause_of(AT_3)
    assert found is not None
    assert found.who == "ben@ops"


def test_a_second_pause_reports_the_first_and_changes_nothing() -> None:
    first = pause(ORDERS)
    found = plan_directive(after(first), pause(ORDERS, "ben@ops"))
    assert found == DirectivePlan(changes=(), before=first)
    assert plan_directive(after(first), pause(ORDERS_3, "ben@ops")).before == first


def test_resuming_a_link_leaves_pauses_of_its_topics_and_reports_them() -> None:
    directives = after(pause(ORDERS), pause(THE_LINK, "ben@ops"))
    found = plan_directive(directives, pause(THE_LINK, paused=False))
    left = directives.with_all(found.changes)
    assert left.pause_of(TopicPartition("bills", 0)) is None
    assert left.pause_of(AT_3) == pause(ORDERS)
    assert found.parts == (pause(ORDERS),)


def test_what_is_paused_within_what_is_paused_stays_so_when_that_is_resumed() -> None:
    link, orders = pause(THE_LINK, "ben@ops"), pause(ORDERS)
    assert plan_directive(after(link), orders) == DirectivePlan(
        changes=((orders.key, orders),), before=link
    )
    directives = after(link, orders, pause(THE_LINK, paused=False))
    assert directives.pause_of(TopicPartition("bills", 0)) is None
    assert directives.pause_of(AT_3) == orders  # its own reason is not over


def test_to_resume_what_is_not_paused_changes_nothing_but_tells_of_its_paused_parts() -> None:
    found = plan_directive(after(pause(ORDERS_3)), pause(ORDERS, paused=False))
    assert found == DirectivePlan(parts=(pause(ORDERS_3),))


@given(st.lists(st.tuples(scopes, st.booleans()), max_size=8), scopes, places)
def test_the_last_directive_counts_for_its_scope(
    wishes: list[tuple[Scope, bool]], scope: Scope, at: TopicPartition
) -> None:
    """A pause pauses all of its scope; a resume resumes it, but for parts paused by themselves.
    Neither changes anything outside."""
    before = after(*(pause(of, paused=paused) for of, paused in wishes))

    paused = before.with_all(plan_directive(before, pause(scope)).changes)
    resumed = before.with_all(plan_directive(before, pause(scope, paused=False)).changes)

    if scope.covers(at):
        assert paused.pause_of(at)
        own = [
            o
            for o in before.all(PauseDirective)
            if o.paused and o.scope != scope and scope.covers(o.scope)
        ]
        if not any(each.scope.covers(at) for each in own):
            assert resumed.pause_of(at) is None
    else:
        assert paused.pause_of(at) == before.pause_of(at) == resumed.pause_of(at)


def test_the_limits_that_hold() -> None:
    assert LinkDirectives().limits(None) == {}
    assert LinkDirectives().limits(500) == {None: 500}
    some = after(throttle(THE_LINK, 100), throttle(ORDERS, 50))
    assert some.limits(500) == {None: 100, "orders": 50}
    assert after(throttle(THE_LINK, None)).limits(500) == {}
    back = some.with_all(plan_removal(some, DirectiveKind.THROTTLE, THE_LINK).changes)
    assert back.limits(500) == {None: 500, "orders": 50}


def test_a_throttle_that_is_the_same_changes_nothing() -> None:
    stood = throttle(ORDERS, 50)
    wish = stood.replace(who="ben@ops")
    assert plan_directive(after(stood), wish) == DirectivePlan(before=stood)
    assert plan_removal(LinkDirectives(), DirectiveKind.THROTTLE, ORDERS) == DirectivePlan()


@given(
    st.sampled_from(DirectiveKind),
    scopes,
    st.text(max_size=20),
    st.none() | st.text(max_size=20),
    st.integers(0, 253_402_300_799_999),  # until the year 10000
    st.booleans(),
    st.none() | st.integers(1, 2**52),
)
def test_what_is_written_is_read(
    kind: DirectiveKind,
    scope: Scope,
    who: str,
    why: str | None,
    at: int,
    paused: bool,
    rate: int | None,
) -> None:
    fields: dict[DirectiveKind, dict[str, object]] = {
        DirectiveKind.PAUSE: {"paused": paused},
        DirectiveKind.THROTTLE: {"bytes_per_s": rate},
        DirectiveKind.ORIGIN: {"cluster": who},
        DirectiveKind.BEGIN: {"looked": {0: at}, "kept": {1: at}},
    }
    directive = any_directive(kind, scope, who, at, why=why, **fields.get(kind, {}))
    assert decode_directive(*encode_directive((directive.key, directive))) == (
        directive.key,
        directive,
    )
    assert decode_directive(*encode_directive((directive.key, None))) == (directive.key, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", None),
        (b"[]", None),
        (b'"pause"', None),
        (b'{"do":"explode"}', None),
        (b'{"do":"pause","partition":1}', None),
        (b'{"do":"pause","topic":7}', None),
        (b'{"do":"pause"}', b"{}"),
        (b'{"do":"pause"}', b'{"v":2,"who":"a","why":null,"at":1,"paused":true}'),
        (b'{"do":"throttle"}', b'{"v":1,"who":"a","why":null,"at":1,"bytes_per_s":-1}'),
        (b'{"do":"throttle"}', b'{"v":1,"who":"a","why":null,"at":1,"bytes_per_s":"fast"}'),
        (b'{"do":"restart"}', b'{"v":1,"who":"a","why":null,"at":99999999999999999999}'),
        (b'{"do":"restart"}', b'{"v":1,"who":"a","why":null,"at":1e999}'),
        # Each lacks a field that every version wrote.
        (b'{"do":"restart"}', b'{"v":1,"who":"a","at":1}'),
        (b'{"do":"pause"}', b'{"v":1,"who":"a","why":null,"at":1}'),
        (b'{"do":"throttle"}', b'{"v":1,"who":"a","why":null,"at":1}'),
        (b'{"do":"fence","topic":"x"}', b'{"v":1,"who":"a","why":null,"at":1,"until":2}'),
        (b'{"do":"cutover"}', b'{"v":1,"who":"a","why":null,"at":1,"until":2}'),
        (b'{"do":"begin","topic":"x"}', b'{"v":1,"who":"a","why":null,"at":1}'),
        (b'{"do":"origin"}', b'{"v":1,"who":"a","why":null,"at":1}'),
        (b'{"do":"end"}', b'{"v":1,"who":"a","why":null,"at":1,"done":true,"cut":null}'),
        (b'{"do":"end"}', b'{"v":1,"who":"a","why":null,"at":1,"how":"promoted","cut":null}'),
        (b'{"do":"end"}', b'{"v":1,"who":"a","why":null,"at":1,"how":"promoted","done":true}'),
        (
            b'{"do":"end","topic":"x"}',
            b'{"v":1,"who":"a","why":null,"at":1,"how":"promoted","done":true,'
            b'"cut":{"target":"x","points":[]}}',
        ),
    ],
)
def test_what_this_version_did_not_write_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        decode_directive(key, value)


@pytest.mark.parametrize(
    ("directive", "said"),
    [
        (pause(ORDERS), "by anna@ops since 1970-01-01T00:00:01Z"),
        (
            EndDirective(who="anna@ops", at=1_000, how=State.PROMOTING),
            "by anna@ops since 1970-01-01T00:00:01Z",
        ),
        (
            EndDirective(who="anna@ops", at=1_000, how=State.FAILED_OVER, why="drill"),
            "by anna@ops at 1970-01-01T00:00:01Z: drill",
        ),
        (
            EndDirective(who="anna@ops", at=1_000, how=State.PROMOTED),
            "by anna@ops at 1970-01-01T00:00:01Z",
        ),
        (
            StepDownDirective(who="anna@ops", at=1_000),
            "by anna@ops at 1970-01-01T00:00:01Z",
        ),
    ],
)
def test_what_lasts_is_since_then_and_what_happened_once_was_at_a_moment(
    directive: Directive, said: str
) -> None:
    assert directive.by == said
