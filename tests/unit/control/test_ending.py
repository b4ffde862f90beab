"""What is written of a mirror's end, and what nobody may do to it afterwards."""

from __future__ import annotations

import pytest

from causeway.errors import ConfigError, ConflictError, RefusedError
from causeway.link_topics import (
    THE_LINK,
    Cut,
    CutPoint,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    PauseDirective,
    RestartDirective,
    Scope,
    cuts_of,
    decode_directive,
    encode_directive,
    finish_end,
    plan_directive,
    plan_end,
    plan_failback,
    withdraw_promotion,
)
from causeway.model import State, TopicPartition

ORDERS = Scope("orders")
CUT = Cut(
    target="A.orders",
    source_id="a" * 32,
    target_id="b" * 32,
    points=(
        CutPoint(partition=0, source=7, targets=((TopicPartition("A.orders", 0), 5),), exact=True),
        CutPoint(partition=1, source=-1, targets=(), exact=False),
    ),
)


def end(
    scope: Scope = THE_LINK, how: State = State.PROMOTING, who: str = "anna@ops"
) -> EndDirective:
    return EndDirective(scope=scope, who=who, why="drill", at=1_000, how=how)


def after(directives: LinkDirectives, made: DirectivePlan) -> LinkDirectives:
    return directives.with_all(made.changes)


def test_it_is_read_as_it_was_written() -> None:
    directive = end(ORDERS, State.FAILED_OVER).replace(cut=CUT, done=True)
    assert decode_directive(*encode_directive((directive.key, directive))) == (
        directive.key,
        directive,
    )
    bare = end()
    assert decode_directive(*encode_directive((bare.key, bare))) == (bare.key, bare)
    left = bare.replace(groups=("readers", "writers"))
    assert decode_directive(*encode_directive((left.key, left))) == (left.key, left)
    key, value = encode_directive((bare.key, bare))
    assert value is not None
    older = value.replace(b'"groups":[],', b"")
    assert older != value
    assert decode_directive(key, older) == (bare.key, bare)


def test_a_mirror_ends_with_a_cut_of_each_topic() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end()))
    assert directives.hold_of(ORDERS) == (
        State.PROMOTING,
        "promoting by anna@ops since 1970-01-01T00:00:01Z: drill",
    )
    assert not directives.has_ended(ORDERS)
    directives = after(
        directives, finish_end(directives, THE_LINK, State.PROMOTED, {"orders": CUT}, done=False)
    )
    assert directives.has_ended(ORDERS)
    assert directives.has_ended(Scope("born later")), "nothing of the link is mirrored any more"
    assert cuts_of(directives, THE_LINK) == {"orders": CUT}
    of_topic = directives.get(EndDirective, ORDERS)
    assert of_topic is not None
    assert (of_topic.cut, of_topic.who, of_topic.at) == (CUT, "anna@ops", 1_000)
    # The next call goes on: what is known of the cut counts, others may have written since.
    later = CUT.replace(points=())
    directives = after(
        directives, finish_end(directives, THE_LINK, State.PROMOTED, {"orders": later}, done=True)
    )
    assert cuts_of(directives, THE_LINK)["orders"] == CUT
    ended = directives.get(EndDirective)
    assert ended is not None
    assert ended.done
    assert not finish_end(directives, THE_LINK, State.PROMOTED, {}, done=True).changes


def test_of_one_topic_the_end_is_the_cut() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end(ORDERS)))
    made = finish_end(directives, ORDERS, State.PROMOTED, {"orders": CUT}, done=False)
    assert len(made.changes) == 1
    directives = after(directives, made)
    assert cuts_of(directives, ORDERS)["orders"] == CUT
    assert not directives.has_ended(Scope("bills"))


def test_who_comes_second_changes_nothing() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end(how=State.FAILED_OVER)))
    for how in (State.PROMOTING, State.FAILED_OVER):
        again = plan_end(directives, end(how=how, who="ben@ops"))
        assert again.changes == ()
        assert again.before is not None
        assert again.before.who == "anna@ops"


def test_a_failover_comes_before_a_promotion_that_is_under_way() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end()))
    directives = after(directives, plan_end(directives, end(how=State.FAILED_OVER, who="ben@ops")))
    assert directives.has_ended(ORDERS)


def test_a_part_of_what_has_ended_does_not_end_again() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end(how=State.FAILED_OVER)))
    with pytest.raises(ConfigError, match=r"the mirror of the link was failed over by anna@ops"):
        plan_end(directives, end(ORDERS))


def test_what_was_taken_back_is_not_finished() -> None:
    with pytest.raises(ConflictError):
        finish_end(LinkDirectives(), THE_LINK, State.PROMOTED, {}, done=True)


def test_a_promotion_that_is_off_takes_no_other_end_back() -> None:
    """Neither that of a topic which had ended before, nor a failover that came amid it."""
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end(ORDERS, State.FAILED_OVER)))
    directives = after(
        directives, finish_end(directives, ORDERS, State.FAILED_OVER, {"orders": CUT}, done=True)
    )
    held = after(directives, plan_end(directives, end()))
    assert held.hold_of(Scope("bills")) is not None
    off = after(held, withdraw_promotion(held, THE_LINK))
    assert off.hold_of(Scope("bills")) is None
    assert off.has_ended(ORDERS)
    lost = after(held, plan_end(held, end(how=State.FAILED_OVER, who="ben@ops")))
    assert withdraw_promotion(lost, THE_LINK).changes == ()
    with pytest.raises(ConflictError, match="failed over meanwhile by ben@ops"):
        finish_end(lost, THE_LINK, State.PROMOTED, {}, done=False)
    assert withdraw_promotion(LinkDirectives(), THE_LINK).changes == ()


def test_what_has_ended_is_neither_paused_nor_resumed_nor_restarted() -> None:
    directives = after(LinkDirectives(), plan_end(LinkDirectives(), end(how=State.FAILED_OVER)))
    for paused in (True, False):
        wish = PauseDirective(scope=ORDERS, who="ben@ops", at=2, paused=paused)
        with pytest.raises(RefusedError, match=r"failed over by anna@ops.*causeway failback"):
            plan_directive(directives, wish)
    restart = RestartDirective(scope=ORDERS, who="ben@ops", at=2)
    with pytest.raises(RefusedError, match=r"^restart orders: .*causeway failback"):
        plan_directive(directives, restart)


def test_a_failback_removes_every_end() -> None:
    pause = PauseDirective(scope=Scope("bills"), who="ben@ops", at=2)
    directives = LinkDirectives({pause.key: pause})
    directives = after(directives, plan_end(directives, end(how=State.FAILED_OVER)))
    directives = after(
        directives, finish_end(directives, THE_LINK, State.FAILED_OVER, {"orders": CUT}, done=True)
    )
    assert directives.hold_of(Scope("bills")) == (
        State.FAILED_OVER,
        "failed over by anna@ops at 1970-01-01T00:00:01Z: drill",
    )
    directives = after(directives, plan_failback(directives, THE_LINK))
    assert list(directives) == [pause], "a pause stands until somebody takes it back"
