"""What `causeway verify` cannot compare it says; it calls nothing equal that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from causeway.cluster import Cluster
from causeway.config import Settings
from causeway.errors import ConfigError
from causeway.formats import load
from causeway.link_topics import Entry, OffsetMapRecord, PartitionProgress
from causeway.model import State
from causeway.operate.verify import Agreement, DifferenceKind, PartitionReport, verify
from tests.harness import flawed
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import mm2_file

pytestmark = pytest.mark.integration

FOREVER = {"retention.ms": "-1"}
RECORDS = 2_000


@dataclass
class Ground:
    """A link of its own, whose mirrors are made by `flawed.mirror`."""

    settings: Settings
    source: KafkaTools
    target: KafkaTools
    one: Cluster
    other: Cluster

    def mirrored(
        self,
        topic: str,
        flaws: dict[tuple[int, int], flawed.Flaw] | None = None,
        *,
        config: dict[str, str] | None = None,
        begin: int = 0,
        before: int = 0,
        claimed: Callable[[list[Entry]], list[Entry]] = lambda entries: entries,
    ) -> str:
        """`before`: so many of the records were there already, by another tool."""
        (link,) = self.settings.links
        mirror = f"limits.{topic}"
        self.source.create_topic(topic, config={**FOREVER, **(config or {})})
        if self.target.partition_count(mirror) is None:
            self.target.create_topic(mirror, config={**FOREVER, **(config or {})})
        self.source.produce(
            topic, [Outgoing(value=b"%d" % n, key=b"%d" % (n % 50)) for n in range(RECORDS)]
        )
        if before:
            wanted = [
                Outgoing(value=each.value, key=each.key, timestamp=each.timestamp)
                for each in self.source.read(topic)[0][begin - before : begin]
            ]
            self.target.produce(mirror, wanted)
        flawed.mirror(
            link,
            topic,
            flaws or {},
            1,
            source=self.one,
            target=self.other,
            begin=begin,
            claimed=claimed,
        )
        return mirror

    def verify(self, topic: str) -> PartitionReport:
        (found,) = verify(self.settings, topics=[topic]).partitions
        return found


@pytest.fixture(scope="module")
def ground(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ground]:
    file = mm2_file(
        tmp_path_factory.mktemp("limits"),
        {"limits": source_cluster, "there": target_cluster},
        "limits->there.enabled = true",
        "limits->there.topics = limits-.*",
    )
    settings = load(file)
    (link,) = settings.links
    with Cluster(link.source) as one, Cluster(link.target) as other:
        yield Ground(settings, source, target, one, other)


def _said(found: PartitionReport) -> list[str]:
    return [left.text for left in found.left]


def test_what_either_side_has_deleted_is_said_and_the_rest_compared(ground: Ground) -> None:
    mirror = ground.mirrored("limits-deleted", {(0, 1_500): flawed.flip})
    ground.source.delete_records("limits-deleted", 0, 300)
    ground.target.delete_records(mirror, 0, 700)

    found = ground.verify("limits-deleted")

    assert _said(found) == [
        "the source has deleted offsets 0 to 299",
        "the target has deleted offsets 0 to 699",
    ]
    assert found.verdict is Agreement.DIFFERS
    assert [(one.kind, one.source, one.target) for one in found.differences] == [
        (DifferenceKind.CHANGED, 1_500, 1_500)
    ]
    assert found.records == RECORDS - 700 - 1


def test_without_a_map_of_offsets_records_are_counted_from_the_end(ground: Ground) -> None:
    def without_map(entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if not isinstance(entry, OffsetMapRecord)]

    mirror = ground.mirrored("limits-no-map", {(0, 1_200): flawed.flip}, claimed=without_map)
    ground.source.delete_records("limits-no-map", 0, 500)
    ground.target.delete_records(mirror, 0, 100)
    found = ground.verify("limits-no-map")
    assert [(one.kind, one.source) for one in found.differences] == [
        (DifferenceKind.CHANGED, 1_200)
    ]
    assert found.records == RECORDS - 500 - 1


def test_a_compacted_topic_that_has_lost_records_is_not_said_to_differ_nor_to_agree(
    ground: Ground,
) -> None:
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    ground.mirrored("limits-compacted", {(0, 700): flawed.drop}, config=compacted)
    found = ground.verify("limits-compacted")
    assert found.verdict is Agreement.IN_PART
    assert "compacted" in _said(found)[-1]
    ground.mirrored("limits-whole", config=compacted)
    assert ground.verify("limits-whole").verdict is Agreement.AGREES

    ground.target.create_topic("limits.limits-compacted-there", config={**FOREVER, **compacted})
    ground.mirrored("limits-compacted-there", {(0, 700): flawed.drop})
    assert ground.verify("limits-compacted-there").verdict is Agreement.IN_PART


def test_what_an_open_transaction_holds_back_is_said(ground: Ground) -> None:
    ground.mirrored("limits-open")
    with ground.source.transactional("limits-open") as writer:
        writer.begin()
        writer.send("limits-open", b"one", b"two")
        writer.flush()
        found = ground.verify("limits-open")
        writer.abort()
    assert (found.verdict, found.records) == (Agreement.IN_PART, RECORDS)
    assert _said(found) == ["an open transaction holds back source offsets 2000 to 2001"]


def test_what_is_transformed_or_may_repeat_or_was_never_mirrored_is_said(ground: Ground) -> None:
    def edited(
        change: Callable[[PartitionProgress], PartitionProgress],
    ) -> Callable[[list[Entry]], list[Entry]]:
        return lambda entries: [
            change(entry) if isinstance(entry, PartitionProgress) else entry for entry in entries
        ]

    ground.mirrored("limits-transformed", claimed=edited(lambda one: one.replace(transform="hash")))
    assert "transform" in _said(ground.verify("limits-transformed"))[0]

    def repeats(one: PartitionProgress) -> PartitionProgress:
        outlets = tuple(each.replace(producer_id=-1, producer_epoch=-1) for each in one.outlets)
        return one.replace(outlets=outlets)

    ground.mirrored("limits-repeats", claimed=edited(repeats))
    assert "at-least-once" in _said(ground.verify("limits-repeats"))[0]

    ground.source.create_topic("limits-never")
    found = ground.verify("limits-never")
    assert (found.verdict, _said(found)) == (
        Agreement.NOT_COMPARED,
        ["no record is mirrored yet"],
    )

    ground.mirrored(
        "limits-paused",
        claimed=edited(lambda one: one.replace(state=State.PAUSED, reason="by anna")),
    )
    ground.source.produce("limits-paused", [b"more", b"and more"])
    found = ground.verify("limits-paused")
    assert (found.verdict, found.records) == (Agreement.IN_PART, RECORDS)
    assert _said(found) == [
        "source offsets 2000 to 2001 are not mirrored yet: it is paused, by anna"
    ]


def test_records_of_others_in_a_mirror_are_told(ground: Ground) -> None:
    """In one that is ours alone they are a difference: whoever reads it takes them for the
    source's."""
    mirror = ground.mirrored("limits-others")
    assert ground.verify("limits-others").verdict is Agreement.AGREES
    ground.target.produce(mirror, [b"mine", b"mine too"])
    found = ground.verify("limits-others")
    assert [(one.kind, one.target, one.records) for one in found.differences] == [
        (DifferenceKind.UNKNOWN, RECORDS, 2)
    ]


def test_records_of_others_where_nothing_is_mirrored_to_are_told(ground: Ground) -> None:
    mirror = "limits.limits-beyond"
    ground.target.create_topic(mirror, partitions=3, config=FOREVER)
    ground.mirrored("limits-beyond")
    assert ground.verify("limits-beyond").verdict is Agreement.AGREES
    ground.target.produce(mirror, [Outgoing(value=b"mine", partition=2)])
    own, other = verify(ground.settings, topics=["limits-beyond"]).partitions
    assert (own.verdict, own.records) == (Agreement.AGREES, RECORDS)
    assert (other.verdict, other.target_partition) == (Agreement.DIFFERS, 2)
    assert [(one.kind, one.target, one.records) for one in other.differences] == [
        (DifferenceKind.UNKNOWN, 0, 1)
    ]


def test_records_of_others_in_a_shared_topic_are_left_out(ground: Ground) -> None:
    def shared(entries: list[Entry]) -> list[Entry]:
        return [
            entry.replace(
                outlets=tuple(one.replace(exclusive=False) for one in entry.outlets),
            )
            if isinstance(entry, PartitionProgress)
            else entry
            for entry in entries
        ]

    mirror = ground.mirrored("limits-shared", claimed=shared)
    ground.target.produce(mirror, [b"mine"])
    assert ground.verify("limits-shared").verdict is Agreement.AGREES  # behind what was mirrored


def test_what_another_tool_had_mirrored_before_agrees_where_it_is_the_same(ground: Ground) -> None:
    ground.mirrored("limits-adopted", begin=500, before=500)
    found = ground.verify("limits-adopted")
    assert (found.verdict, found.records, _said(found)) == (Agreement.AGREES, RECORDS, [])

    ground.mirrored("limits-later", begin=500, before=300)
    found = ground.verify("limits-later")
    assert (found.verdict, found.records) == (Agreement.IN_PART, RECORDS - 200)
    assert "300 records in common, and one of them 200 more" in _said(found)[0]

    mirror = "limits.limits-unlike"
    ground.target.create_topic(mirror, config=FOREVER)
    ground.target.produce(mirror, [b"something else"])
    ground.mirrored("limits-unlike", begin=500)
    found = ground.verify("limits-unlike")
    assert (found.verdict, found.records) == (Agreement.IN_PART, RECORDS - 500)
    assert _said(found) == [
        "source offsets 0 to 499 are from before the mirror's beginning",
        "target offsets 0 to 0 were there before the mirror began",
    ]


def test_a_target_made_anew_and_an_unknown_name(ground: Ground) -> None:
    mirror = ground.mirrored("limits-anew")
    ground.target.delete_topic(mirror)
    found = ground.verify("limits-anew")
    assert (found.verdict, _said(found)) == (
        Agreement.NOT_COMPARED,
        ["the target topic does not exist"],
    )
    ground.target.create_topic(mirror)
    assert "recreated on the target" in _said(ground.verify("limits-anew"))[0]
    with pytest.raises(ConfigError, match="like it: limits-anew"):
        verify(ground.settings, topics=["limits-new"])
