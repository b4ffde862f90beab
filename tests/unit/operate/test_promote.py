"""What is proven before a mirror ends."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.errors import ConfigError, ConflictError, PartitionsFailedError
from causeway.link_topics import (
    THE_LINK,
    DirectiveChange,
    DirectivePlan,
    EndDirective,
    LinkDirectives,
    ProgressContents,
    Scope,
    WrittenDirectives,
)
from causeway.model import State, TopicPartition
from causeway.operate.directives import Wanted
from causeway.operate.failover import Promoted, last_groups
from causeway.operate.failover import promotion as promoting
from causeway.operate.failover.ending import Ending, wish
from causeway.operate.failover.promotion import LinkPromotion, lagging_partitions, refusal
from causeway.operate.failover.results import LaggingPartition
from tests.builders.daemon import row
from tests.builders.settings import links_between
from tests.harness.daemon import link
from tests.harness.directives import replace_writes
from tests.harness.waiting import await_until

AT = TopicPartition("orders", 0)
LATE = LaggingPartition(AT, "mirrored up to 10 of 11")


def test_what_was_promoted_before_another_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: set[str] = set()

    class Move:
        def __init__(self, ending: Any, *_: object) -> None:
            self.ending = ending
            self._name = ending.link.name
            self.mirrors_nothing = self._name in nothing

        def run(self) -> Promoted:
            if self.mirrors_nothing:
                return self._found(changed=False, left="nothing")
            if self._name == "A->B":
                raise PartitionsFailedError("promote", "A->B", "lags", remedy="try again")
            return self._found(changed=True)

        def _found(self, **more: Any) -> Promoted:
            fields = {"link": self._name, "source": "C", "target": "B", "scope": THE_LINK, **more}
            return Promoted(dry_run=False, **cast(Any, fields))

    monkeypatch.setattr(promoting, "clusters", lambda: nullcontext(None))
    monkeypatch.setattr(promoting, "choose", lambda settings, *_: settings.links)
    monkeypatch.setattr(promoting, "Ending", lambda link, *_: SimpleNamespace(link=link))
    monkeypatch.setattr(promoting, "LinkPromotion", Move)
    with pytest.raises(PartitionsFailedError, match=r"C->B: promoted by now; try again"):
        promoting.promote(links_between("C->B", "A->B"))
    with pytest.raises(PartitionsFailedError, match=r"lags \(try again"):
        promoting.promote(links_between("A->B"))
    nothing.add("A->B")
    done, left = promoting.promote(links_between("C->B", "A->B"))
    assert [(each.link, each.left) for each in (done, left)] == [
        ("C->B", None),
        ("A->B", "nothing"),
    ]
    with pytest.raises(ConfigError, match=r"promote the link of A->B: it mirrors no topics"):
        promoting.promote(links_between("A->B"))


@pytest.mark.parametrize("looks", [[()], [(LATE,)], [(), (LATE,)]])
def test_nothing_may_come_before_or_while_groups_are_placed(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[LaggingPartition, ...]]
) -> None:
    """`looks`: what lags, look by look, once the mirror is held."""
    left = [(), *looks]
    begun = row().progress.replace(position=11, state=State.PROMOTING)

    def log_ends(places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        lagging = left.pop(0) if left else ()
        return dict.fromkeys(places, 12 if lagging else 11)

    admin = SimpleNamespace(log_ends=log_ends)
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*")
    finished: list[State] = []
    ending = SimpleNamespace(
        link=mirror,
        scope=Scope("orders"),
        subject="orders of A->B",
        say=lambda _: None,
        end=None,
        driver=None,
        standing=LinkDirectives(),
        contents=ProgressContents(partitions={AT: begun}),
        sides=SimpleNamespace(source_admin=admin, target_admin=None),
        progress=dict,
        known_cuts={},
        mirrored=lambda: {"orders": SimpleNamespace(source="orders", partitions=1)},
        lift_read_only=tuple,
        read_on=lambda: None,
        holding=lambda _: nullcontext(),
        begin=lambda *_: None,
        cuts=dict,
        finish=lambda how, *_, **__: finished.append(how),
    )
    monkeypatch.setattr(last_groups, "sync", lambda *_: ())
    promotion = LinkPromotion(cast(Any, ending), Wanted(who="anna@ops", wait_s=0))
    if looks == [()]:
        assert promotion.run().changed
        assert finished == [State.PROMOTED, State.PROMOTED]
        return
    with pytest.raises(PartitionsFailedError, match="mirrored up to 11 of 12"):
        promotion.run()
    assert finished == []


class Log:
    """The directives topic. Writes take as long as none at all."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.directives = LinkDirectives()
        self.writes: list[tuple[DirectiveChange, ...]] = []
        replace_writes(patch, self.write)
        patch.setattr("causeway.operate.failover.ending.DirectiveLog", self.reader)
        patch.setattr("causeway.operate.directives.act.ProgressTopic", Empty)
        patch.setattr(
            "causeway.operate.failover.ending.recognise", lambda _, __, contents: contents
        )

    def write(
        self, _: object, __: object, decide: Callable[[LinkDirectives], DirectivePlan]
    ) -> WrittenDirectives:
        plan = decide(self.directives)
        self.directives = self.directives.with_all(plan.changes)
        self.writes.append(plan.changes)
        return WrittenDirectives(plan, len(self.writes), "id")

    def reader(self, *_: object) -> Any:
        return SimpleNamespace(look=lambda: None, directives=self.directives)


class Empty:
    """A progress topic that is not there: nobody leads."""

    def __init__(self, *_: object) -> None:
        pass

    def exists(self) -> bool:
        return False


def ending_of() -> Ending:
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*")
    return Ending(mirror, THE_LINK, cast(Any, lambda _: None), 3.0, lambda _: None)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), PartitionsFailedError("promote", "orders", "lags")]
)
def test_a_promotion_that_is_interrupted_or_fails_releases_its_mirror(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    log = Log(monkeypatch)
    found = ending_of()

    def fail() -> None:
        (stands,) = log.directives.all(EndDirective)
        assert (stands.how, stands.until > stands.at) == (State.PROMOTING, True)
        raise error

    def promote() -> None:
        with found.holding(0.0):
            found.begin(wish(State.PROMOTING, THE_LINK, "anna@ops", None), 0.0)
            fail()

    with pytest.raises(type(error)):
        promote()
    assert not log.directives.by_key


def test_a_promotion_renews_itself_and_only_its_newest_command_finishes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command that slept must not write a cut that is true no more."""
    log = Log(monkeypatch)
    monkeypatch.setattr("causeway.operate.failover.ending._RENEW_S", 0.001)
    slow, next_call = ending_of(), ending_of()
    asked = wish(State.PROMOTING, THE_LINK, "anna@ops", None)
    with slow.holding(0.0):
        slow.begin(asked, 0.0)
        (before,) = log.directives.all(EndDirective)
        await_until(lambda: next(log.directives.all(EndDirective)).until > before.until, 10)
    with next_call.holding(0.0):
        next_call.begin(asked.replace(who="ben@ops"), 0.0)
        with pytest.raises(ConflictError, match="another command goes on with"):
            slow.finish(State.PROMOTED, {}, done=False)
        next_call.finish(State.PROMOTED, {}, done=False)
    (end,) = log.directives.all(EndDirective)
    assert (end.how, end.who, end.until, end.run) == (State.PROMOTED, "anna@ops", -1, "")


@pytest.mark.parametrize("by_file", [True, False])
def test_who_pauses_what_lags_is_said(*, by_file: bool) -> None:
    """And what to do about it: it never catches up while it is paused."""
    anna = "paused by anna@ops since 2026-01-31T12:00:00Z"
    begun = row().progress.replace(position=10, state=State.PAUSED, reason=anna)
    file = {"records_paused": True, "places": {"causeway.paused": "mirror.yaml:7"}}
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*", more=file if by_file else {})
    orders = SimpleNamespace(source="orders", partitions=2)
    ends = dict.fromkeys([AT, TopicPartition("orders", 1)], 11)
    lagging = lagging_partitions(mirror, cast(Any, [orders]), ends, {AT: begun})
    file_says = "paused by the file: mirror.yaml:7"
    assert [str(each) for each in lagging] == [
        f"orders-0: mirrored up to 10 of 11, {file_says if by_file else anna}",
        f"orders-1: not begun{f', {file_says}' if by_file else ''}",
    ]
    refused = refusal("orders of A->B", lagging)
    assert str(refused.remedy).startswith("take the pause back, let it catch up, and try again")
    assert "stop the producers" in str(refusal("the link of A->B", (LATE,)).remedy)
