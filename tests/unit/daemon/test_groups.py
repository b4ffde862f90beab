"""Checkpoints and commits of one link; no broker takes part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import pytest
from msgspec import structs

from causeway.cluster import ClusterMetadata, Committed, GroupListing, OffsetAt
from causeway.config import ControlSettings, LinkSettings
from causeway.control import GroupCommits, Translated, TranslatedOffset
from causeway.daemon import Sides
from causeway.daemon.partitions.readings import Readings
from causeway.daemon.tasks import groups as module
from causeway.daemon.tasks.groups import Groups
from causeway.errors import AuthorizationError, BrokerError, CausewayError
from causeway.filters import compile_patterns
from causeway.model import TopicPartition
from causeway.translation import (
    Course,
    CourseKey,
    CourseOffsets,
    GroupsBothWays,
    MappedOffset,
    OffsetTranslator,
)
from causeway.translation.both_ways import Again
from tests.builders import settings
from tests.builders.unread import fed, outlet

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
HIDDEN = AuthorizationError("look up topic", "A.checkpoints.internal on B", "not allowed")


class FakeCluster:
    """Has `groups` with their states, and lets nobody see its topics."""

    def __init__(self, **groups: str) -> None:
        self.groups = {
            name: GroupListing(name=name, state=state, type="classic", protocol_type="consumer")
            for name, state in groups.items()
        }
        self.committed: dict[str, dict[TopicPartition, Committed]] = {}

    def metadata(self, _: object) -> ClusterMetadata:
        raise HIDDEN

    def list_groups(self) -> dict[str, GroupListing]:
        return self.groups

    def committed_offsets_of(
        self, names: Collection[str]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        return {name: self.committed.get(name, {}) for name in names}

    def list_offsets(
        self, places: Collection[TopicPartition], _: int, **__: Any
    ) -> dict[Any, OffsetAt]:
        return {at: OffsetAt(offset=100, timestamp=-1, leader_epoch=-1) for at in places}

    def commit_offsets(
        self, commits: Mapping[str, dict[TopicPartition, Committed]]
    ) -> dict[str, dict[TopicPartition, CausewayError]]:
        self.committed.update(commits)
        return {group: {} for group in commits}


class RefusingCluster(FakeCluster):
    """Takes no offset of any partition."""

    def commit_offsets(
        self, commits: Mapping[str, dict[TopicPartition, Committed]]
    ) -> dict[str, dict[TopicPartition, CausewayError]]:
        return {group: dict.fromkeys(offsets, HIDDEN) for group, offsets in commits.items()}


class SlowCluster(FakeCluster):
    """Asking for `dark` partitions' offsets, or for `slow` groups, takes as long as a request may,
    by a clock of its own."""

    dark: Collection[TopicPartition] = ()
    slow: Collection[str] = ()
    now = 0.0

    def list_offsets(self, places: Collection[TopicPartition], _: int, **__: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = super().list_offsets(places, _)
        for at in set(places) & set(self.dark):
            self.now += 31.0
            found[at] = TIMED_OUT
        return found

    def committed_offsets_of(self, names: Collection[str]) -> dict[str, Any]:
        found: dict[str, Any] = dict(super().committed_offsets_of(names))
        for group in set(names) & set(self.slow):
            self.now += 31.0
            found[group] = TIMED_OUT
        return found


TIMED_OUT = BrokerError("ask", "B", code=7, name="REQUEST_TIMED_OUT", retriable=True)


class EmptyTopic:
    """Takes every checkpoint."""

    def ensure(self, _: int) -> None:
        pass

    def newest(self) -> dict[bytes, bytes]:
        return {}

    def append(self, _: object) -> None:
        pass


def _mirror(at: TopicPartition) -> TopicPartition:
    return TopicPartition(f"A.{at.topic}", at.partition)


class AsItIs:
    """Every offset is the same on both sides."""

    unfinished = False

    def shared(self) -> dict[TopicPartition, set[TopicPartition]]:
        return {}

    def brought_to(self, _: Course) -> int:
        return 0

    def translate(self, wanted: Mapping[TopicPartition, Collection[int]]) -> CourseOffsets:
        places = {
            CourseKey(at, _mirror(at)): {
                offset: MappedOffset(_mirror(at), offset) for offset in wanted[at]
            }
            for at in wanted
        }
        return CourseOffsets(places, {})


def groups_of(
    source: FakeCluster,
    target: FakeCluster,
    *,
    term: Callable[[], int | None] = lambda: 1,
    registry: Readings | None = None,
    translator: AsItIs | None = None,
    **control: Any,
) -> Groups:
    link = settings.link(control=ControlSettings(sync_group_offsets_enabled=True, **control))
    at_source, at_target = cast(Any, source), cast(Any, target)
    sides = Sides(
        source=at_source, target=at_target, source_admin=at_source, target_admin=at_target
    )
    offsets = cast(OffsetTranslator, translator or AsItIs())
    return Groups(link, sides, offsets, term, registry or Readings())


def test_offsets_are_committed_where_checkpoints_are_refused() -> None:
    source, target = FakeCluster(billing="Stable"), FakeCluster()
    source.committed["billing"] = {SOURCE: Committed(offset=7)}

    with pytest.raises(AuthorizationError) as refused:
        groups_of(source, target).work()

    assert refused.value is HIDDEN
    assert target.committed == {"billing": {TARGET: Committed(offset=7)}}


def test_why_a_group_is_not_committed_is_said_until_it_is_looked_at_again() -> None:
    source, target = FakeCluster(billing="Stable"), FakeCluster(billing="Stable")
    source.committed["billing"] = {SOURCE: Committed(offset=7)}
    groups = groups_of(source, target, emit_checkpoints_enabled=False)

    first, between = groups.work(), groups.work()

    assert first.items.keys() == {"billing"}
    assert "members" in first.items["billing"]
    assert between == first


def test_the_status_has_every_group_of_the_source_with_its_reason() -> None:
    source = FakeCluster(billing="Stable", audit="Stable", idle="Empty", other="Stable")
    source.committed["billing"] = {SOURCE: Committed(offset=7)}
    source.committed["audit"] = {SOURCE: Committed(offset=3)}
    groups = groups_of(
        source,
        FakeCluster(billing="Stable"),
        emit_checkpoints_enabled=False,
        groups_exclude=compile_patterns("other"),
    )

    groups.work()

    found = {each.group: each for each in groups.statuses}
    assert list(found) == ["audit", "billing", "idle", "other"]
    assert (found["audit"].followed, found["audit"].partitions) == (True, 1)
    assert found["audit"].reason is None
    assert found["billing"].followed
    assert "members" in str(found["billing"].reason)
    assert not found["idle"].followed
    assert "committed nothing" in str(found["idle"].reason)
    assert not found["other"].followed
    groups.forget()
    assert groups.statuses == ()


def test_a_partition_whose_offset_was_refused_is_the_reason_of_its_group() -> None:
    source, target = FakeCluster(billing="Stable"), RefusingCluster()
    source.committed["billing"] = {SOURCE: Committed(offset=7)}
    groups = groups_of(source, target, emit_checkpoints_enabled=False)

    done = groups.work()

    (billing,) = groups.statuses
    assert (billing.group, billing.followed) == ("billing", True)
    assert billing.reason == f"{TARGET}: {HIDDEN}"
    assert done.items == {f"billing on {TARGET}": str(HIDDEN)}


def test_a_group_that_no_pattern_decides_in_time_is_named() -> None:
    """The others that the file leaves out are not."""
    slow = "a" * 248
    source = FakeCluster(**{slow: "Stable", "b": "Stable"})
    patterns = compile_patterns(r"(?!x)(a|aa)+\.")
    groups = groups_of(source, FakeCluster(), emit_checkpoints_enabled=False, groups=patterns)

    outcome = groups.work()

    assert outcome.items.keys() == {slow}
    assert "takes more than" in outcome.items[slow]


def test_what_was_read_before_another_driver_led_is_not_written() -> None:
    """Also where the lead has come back meanwhile."""
    for later in (None, 2):
        source, target = FakeCluster(billing="Stable"), FakeCluster()
        source.committed["billing"] = {SOURCE: Committed(offset=7)}
        terms = iter((1, later))
        groups = groups_of(source, target, term=terms.__next__, emit_checkpoints_enabled=False)

        with pytest.raises(CausewayError, match="another driver may lead by now"):
            groups.work()

        assert target.committed == {}


def test_a_partition_without_a_leader_and_a_slow_group_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was read of the others is not old because of them."""
    names = ("billing", "hanging", "shipping", "taxes")
    source, target = FakeCluster(**dict.fromkeys(names, "Stable")), SlowCluster()
    source.committed = {name: {SOURCE: Committed(offset=7)} for name in names}
    dark = TopicPartition("dark", 0)
    source.committed["taxes"][dark] = Committed(offset=3)
    target.dark, target.slow = [TopicPartition("A.dark", 0)], ["hanging"]
    monkeypatch.setattr("time.monotonic", lambda: target.now)
    monkeypatch.setattr(module, "_TOGETHER", 1)
    groups = groups_of(source, target, emit_checkpoints_enabled=False)

    outcome = groups.work()

    done = {TARGET: Committed(offset=7)}
    assert target.committed == {"billing": done, "shipping": done, "taxes": done}
    assert outcome.items == {"hanging": str(TIMED_OUT)}
    assert outcome.unfinished, "so that it is tried again soon"

    # Next time it keeps nobody waiting but itself, though one request would have room for all.
    monkeypatch.setattr(module, "_TOGETHER", 500)
    source.committed = {name: {SOURCE: Committed(offset=9)} for name in names}
    groups.work()
    done = {TARGET: Committed(offset=9)}
    assert target.committed == {"billing": done, "shipping": done, "taxes": done}


def test_times_are_kept_of_so_many_checkpoints_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is four series of metrics."""
    monkeypatch.setattr(module, "_MOST_TIMED", 3)
    monkeypatch.setattr(module, "TopicLog", lambda *_, **__: EmptyTopic())
    names = [f"group-{number}" for number in range(5)]
    source = FakeCluster(**dict.fromkeys(names, "Stable"))
    groups = groups_of(source, FakeCluster(), emit_checkpoints_interval_s=0)
    for offset in (7, 9):
        source.committed = {name: {SOURCE: Committed(offset=offset)} for name in names}
        groups.work()

    assert [timing.group for timing in groups.timings()] == names[:3]
    assert groups.untimed == 4


class Rows:
    """Of a target partition that others write to. The next rounds have none of these rows."""

    def __init__(self, *present: bool) -> None:
        self.present = list(present)

    def courses(self) -> list[Course]:
        return [fed(SOURCE, outlet(topic=TARGET.topic))] if self.present.pop(0) else []

    def alone_until(self, key: object, offset: int) -> int:
        return 99

    def ended(self) -> set[TopicPartition]:
        return set()

    def with_chosen(self, link: LinkSettings) -> LinkSettings:
        return link


@pytest.mark.parametrize("present", [True, False])
def test_a_partition_that_is_let_go_of_amid_a_round_gets_no_commit(present: bool) -> None:
    """Else nothing would tell of the records of others before the place."""
    source, target = FakeCluster(billing="Stable"), FakeCluster()
    source.committed["billing"] = {SOURCE: Committed(offset=7)}
    groups = groups_of(
        source,
        target,
        registry=cast(Readings, Rows(True, present)),
        emit_checkpoints_enabled=False,
    )
    groups.work()
    assert target.committed == ({"billing": {TARGET: Committed(offset=7)}} if present else {})


def test_a_group_whose_mirrors_have_ended_is_no_news() -> None:
    """After a cutover its places are on the target, and no map tells of them any more."""

    class Ended(Rows):
        def ended(self) -> set[TopicPartition]:
            return {SOURCE}

    class NoMaps(AsItIs):
        def translate(self, wanted: Mapping[TopicPartition, Collection[int]]) -> CourseOffsets:
            return super().translate({at: each for at, each in wanted.items() if at != SOURCE})

    source, target = FakeCluster(billing="Empty", audit="Empty"), FakeCluster()
    bills = TopicPartition("bills", 0)
    source.committed["billing"] = {SOURCE: Committed(offset=7)}
    source.committed["audit"] = {SOURCE: Committed(offset=7), bills: Committed(offset=3)}
    groups = groups_of(
        source,
        target,
        registry=cast(Readings, Ended(False, False)),
        translator=NoMaps(),
        emit_checkpoints_enabled=False,
    )

    assert groups.work().items == {}
    assert target.committed == {"audit": {TopicPartition("A.bills", 0): Committed(offset=3)}}
    (audit, billing) = groups.statuses
    assert (audit.followed, audit.partitions) == (True, 1)
    assert not billing.followed
    assert "have ended" in str(billing.reason)


class Lower:
    """Programs write to both clusters: each group is at 4 at most, or has no place."""

    unfinished = False
    again: Mapping[str, Again] = {"billing": Again(1, 3)}

    def before_the_beginning(self, ranges: Any) -> Any:
        return ranges

    def bound(
        self, _: GroupCommits, translated: Translated
    ) -> tuple[dict[str, dict[TopicPartition, TranslatedOffset]], dict[str, str]]:
        lower = {
            group: {at: structs.replace(place, downstream=4) for at, place in places.items()}
            for group, places in translated.items()
            if group != "audit"
        }
        return lower, {f"audit on {SOURCE}": "B->A: it has not begun this partition"}


def test_a_group_of_a_topic_that_both_clusters_write_gets_the_lower_offset() -> None:
    source, target = FakeCluster(billing="Stable", audit="Stable"), FakeCluster()
    for group in ("billing", "audit"):
        source.committed[group] = {SOURCE: Committed(offset=7)}
    groups = groups_of(source, target, emit_checkpoints_enabled=False)
    groups._both_ways = cast(GroupsBothWays, Lower())

    done = groups.work()

    assert target.committed == {"billing": {TARGET: Committed(offset=4)}}
    assert done.figures == {"billing": 3}
    assert "it has not begun" in done.items[f"audit on {SOURCE}"]
    found = {each.group: each for each in groups.statuses}
    assert (found["billing"].again, found["audit"].again) == (3, 0)
    assert "lies outside" in str(found["audit"].reason)
