"""Consumer groups of transformed topics: each goes on at the first record that it has not read,
where records were dropped, multiplied, and routed to one partition from several."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.harness.control import checkpoints, offset_syncs
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, left_undone, mm2_file
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

# Of ten records one has three lines, two go elsewhere, and six are dropped.
_SQL = """
SELECT concat(line, ':', value) AS value, IF(n % 10 < 3, '{routed}', NULL) AS topic,
    IF(n % 10 < 3, 0, NULL) AS partition
FROM (SELECT *, cast(substring_index(value, ' ', 1) AS int) AS n FROM records)
LATERAL VIEW OUTER explode(IF(n % 10 IN (0, 3), array('a', 'b', 'c'), array('a'))) lines AS line
WHERE n % 10 < 4
"""
Place = tuple[str, int]


class Truth:
    """Of one transformed topic: for each record on the target, which of the source it is of."""

    def __init__(
        self, source: KafkaTools, topic: str, target: KafkaTools, mirrors: Iterable[str]
    ) -> None:
        self._at = {
            record.value: (partition, record.offset)
            for partition, records in source.read(topic).items()
            for record in records
        }
        self.places: dict[Place, list[tuple[int, tuple[int, int]]]] = {}
        self._ends: dict[Place, int] = {}
        for mirror in mirrors:
            for partition, records in target.read(mirror).items():
                self.places[mirror, partition] = [
                    (record.offset, self._at[(record.value or b"").partition(b":")[2]])
                    for record in records
                ]
                self._ends[mirror, partition] = len(records)

    def lacks(self, topic: str, routed: str) -> bool:
        """Whether the target lacks something."""
        counts = {(topic, p): 0 for p in range(2)} | {(routed, 0): 0}
        for value, (partition, _) in self._at.items():
            digit = int((value or b"").split()[0]) % 10
            if digit < 4:
                place = (routed, 0) if digit < 3 else (topic, partition)
                counts[place] += 3 if digit in (0, 3) else 1
        return any(self._ends.get(place, 0) < count for place, count in counts.items())

    def stand(self, place: Place, commits: Mapping[int, int]) -> int:
        """The first record that was not read; `commits`: by source partition, none of it where one
        is missing."""
        for offset, (partition, before) in self.places[place]:
            if before >= commits.get(partition, 0):
                return offset
        return self._ends[place]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_group_stands_at_the_first_record_that_it_has_not_read(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    topic, routed = prefix + "orders", prefix + "paid"
    own, paid = f"A.{topic}", f"A.{routed}"
    source.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {topic}",
        f"groups = {prefix}.*",
        "emit.checkpoints.interval.seconds = 1",
        "sync.group.offsets.enabled = true",
        "sync.group.offsets.interval.seconds = 1",
        "sync.topic.acls.enabled = false",
        "A->B.causeway.transforms = lines",
        f"A->B.causeway.transform.lines.topics = {topic}",
        "A->B.causeway.transform.lines.value.format = string",
        "A->B.causeway.transform.lines.sql = " + " ".join(_SQL.format(routed=routed).split()),
    )
    chance = random.Random(7)
    groups: dict[str, dict[int, int]] = {f"{prefix}g{n}": {} for n in range(12)}
    for round_ in range(2):
        _write(source, topic, chance, count=3_000)
        ends = source.offsets(topic)
        for number, (group, commits) in enumerate(groups.items()):
            # Some have read all, some stand where they were, and one reads one partition only.
            for partition in (0,) if number == 3 else (0, 1):
                first = commits.get(partition, 0)
                last = ends[partition]
                commits[partition] = last if number < 2 else chance.randint(first, last)
            source.commit_group(group, {(topic, p): offset for p, offset in commits.items()})
        with Running("run", file, directory=tmp_path) as run:
            truth = _await_mirrored(source, topic, target, own, paid)
            _await_exact(target, groups, truth)
            if round_ == 0:
                run.kill()  # what it had not written down is looked up
            else:
                assert run.stop() == 0
    _assert_syncs_skip_nothing(source, topic, own, truth)
    assert not left_undone(file, "groups")


def _write(source: KafkaTools, topic: str, chance: random.Random, count: int) -> None:
    ends = source.offsets(topic)
    before = sum(ends.values())
    source.produce(
        topic,
        [
            Outgoing(value=b"%d %d" % (number, partition), partition=partition)
            for number in range(before, before + count)
            for partition in (chance.randrange(2),)
        ],
        codec="zstd",
    )


def _await_mirrored(
    source: KafkaTools, topic: str, target: KafkaTools, own: str, paid: str
) -> Truth:
    found: list[Truth] = []

    def there() -> bool:
        if target.partition_count(own) is None or target.partition_count(paid) is None:
            return False
        found[:] = [Truth(source, topic, target, (own, paid))]
        return not found[0].lacks(own, paid)

    await_until(there, PATIENCE_S, "the transformed records", poll_s=1.0)
    return found[0]


def _await_exact(target: KafkaTools, groups: Mapping[str, Mapping[int, int]], truth: Truth) -> None:
    wrong: list[object] = []

    def exact() -> bool:
        wrong.clear()
        written = checkpoints(target)
        for group, commits in groups.items():
            committed: dict[Place, int] | None = None
            for place in truth.places:
                if "paid" not in place[0] and place[1] not in commits:
                    continue
                of_it = commits if "paid" in place[0] else {place[1]: commits[place[1]]}
                stand = truth.stand(place, of_it)
                checkpoint = written.get((group, place))
                if checkpoint is None or checkpoint.downstream != stand:
                    if truth.places[place]:
                        wrong.append((group, place, dict(commits), checkpoint, stand))
                    continue
                if committed is None:  # which costs a client for each group
                    committed = target.group_offsets(group)
                found = checkpoint.downstream, committed.get(place)
                if found != (stand, stand) and truth.places[place]:
                    wrong.append((group, place, dict(commits), *found, stand))
        return not wrong

    try:
        await_until(exact, PATIENCE_S, "exact checkpoints and commits", poll_s=0.5)
    except AssertionError as error:
        error.add_note(f"{len(wrong)} are wrong: {wrong[:6]}")
        raise


def _assert_syncs_skip_nothing(source: KafkaTools, topic: str, own: str, truth: Truth) -> None:
    """Readers made for MirrorMaker 2 take the newest one at or before an offset: there exactly,
    later one more."""
    syncs = offset_syncs(source, "B")
    for partition, end in source.offsets(topic).items():
        known = dict(syncs[topic, partition])
        assert known
        for offset in range(end):
            before = max((u for u in known if u <= offset), default=None)
            if before is not None:
                translated = known[before] + (offset > before)
                assert translated <= truth.stand((own, partition), {partition: offset})
