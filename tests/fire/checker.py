"""The comparison at the end, by what the independent reader has read of both clusters."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from causeway.records import BatchHeader, frames
from tests.fire.tape import Place, Tape, Witness
from tests.fire.topics import FireTopic, number_of
from tests.harness.kafka_tools import KafkaTools, Record

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a partition of the mirror must have, in order, and where A has it."""

    offsets: array[int]
    numbers: array[int]
    digests: array[int]
    keys: list[bytes | None]


def wanted_of(tape: Tape, unmirrored: Set[int]) -> Wanted:
    if not unmirrored:
        return Wanted(tape.offsets, tape.numbers, tape.digests, tape.keys)
    kept = [at for at, number in enumerate(tape.numbers) if number not in unmirrored]
    return Wanted(
        array("q", (tape.offsets[at] for at in kept)),
        array("q", (tape.numbers[at] for at in kept)),
        array("q", (tape.digests[at] for at in kept)),
        [],
    )


def compare(topic: FireTopic, place: Place, wanted: Wanted, found: Tape) -> Iterator[str]:
    """What is wrong with a partition of the mirror."""
    name = f"{place[0]}-{place[1]}"
    if wanted.numbers == found.numbers and wanted.digests == found.digests:
        if topic.kind == "preserved" and wanted.offsets != found.offsets:
            at = _first_difference(wanted.offsets, found.offsets)
            yield (
                f"{name}: record {wanted.numbers[at]} has offset {found.offsets[at]} on B, "
                f"{wanted.offsets[at]} on A"
            )
        return
    a_offsets = dict(zip(wanted.numbers, wanted.offsets, strict=True))
    b_offsets = dict(zip(found.numbers, found.offsets, strict=True))
    missing = [n for n in wanted.numbers if n not in b_offsets]
    if topic.kind == "compacted":
        last = set(dict(zip(wanted.keys, wanted.numbers, strict=True)).values())
        missing = [number for number in missing if number in last]
    if missing:
        lost = _some(a_offsets[n] for n in missing)
        yield f"{name}: {len(missing)} records are lost, on A at {lost}"
    unknown = [n for n in found.numbers if n not in a_offsets]
    if unknown:
        strange = _some(b_offsets[n] for n in unknown)
        yield f"{name}: {len(unknown)} records are not from A, on B at {strange}"
    doubled = {number for number, times in Counter(found.numbers).items() if times > 1}
    if doubled:
        twice = [o for o, n in zip(found.offsets, found.numbers, strict=True) if n in doubled]
        yield f"{name}: {len(doubled)} records are doubled, on B at {_some(twice)}"
    if missing or unknown or doubled:
        return
    both = [n for n in wanted.numbers if n in b_offsets]
    if both != list(found.numbers):
        at = _first_difference(both, found.numbers)
        yield f"{name}: the order differs, first on B at offset {found.offsets[at]}"
        return
    digests = dict(zip(wanted.numbers, wanted.digests, strict=True))
    changed = [
        offset
        for offset, number, digest in zip(found.offsets, found.numbers, found.digests, strict=True)
        if digests[number] != digest
    ]
    if changed:
        yield f"{name}: {len(changed)} records have other content, on B at {_some(changed)}"


def compare_group(
    topic: FireTopic,
    group: str,
    at_a: int,
    at_b: int | None,
    place: Place,
    logs: tuple[Wanted, Tape],
) -> str | None:
    """What is wrong with the place of a group on B, if its place on A is `at_a`. Its next record on
    B must be its next record on A."""
    wanted, found = logs
    read = bisect_left(wanted.offsets, at_a)
    index = 0 if at_b is None else bisect_left(found.offsets, at_b)
    name = f"group {group}: {place[0]}-{place[1]}"
    if index != read:
        what = "skips" if index > read else "repeats"
        right = found.offsets[read] if read < len(found) else found.next
        return (
            f"{name}: {what} {abs(index - read)} records: offset {at_b} on B, "
            f"{at_a} on A, which is {right} on B"
        )
    if topic.kind == "preserved" and at_b != at_a:
        return f"{name}: offset {at_b} on B, {at_a} on A"
    return None


def compare_acked(
    topic: str, acked: Set[int], witness: Witness, doubled: Mapping[int, Sequence[BatchHeader]]
) -> Iterator[str]:
    """What a cluster has acknowledged must be on A, once. `doubled`: the batches of records that
    are there twice."""
    numbers = Counter(
        number
        for place, tape in witness.tapes.items()
        if place[0] == topic
        for number in (*tape.numbers, *tape.left_out)
    )
    if lost := acked - numbers.keys():
        numbered = _some(sorted(lost))
        yield f"{topic}: {len(lost)} acknowledged records are not on A: numbers {numbered}"
    for number, times in numbers.items():
        if times > 1 and not is_sent_again(batches := doubled.get(number, ())):
            yield f"{topic}: record {number} is doubled on A: {', '.join(map(str, batches))}"


def batches_of_doubled(
    topic: str, tapes: dict[Place, Tape], logs: Sequence[Path]
) -> dict[int, list[BatchHeader]]:
    """For the number of each record that is on A twice: its batches, from the brokers' directories
    `logs`."""
    places = [(place, tape) for place, tape in tapes.items() if place[0] == topic]
    times = Counter(number for _, tape in places for number in tape.numbers)
    found: dict[int, list[BatchHeader]] = defaultdict(list)
    for place, tape in places:
        for offset, number in zip(tape.offsets, tape.numbers, strict=True):
            if times[number] > 1:
                found[number] += {by for log in logs for by in _batch_at(log, place, offset)}
    return found


def is_sent_again(batches: Sequence[BatchHeader]) -> bool:
    """Whether the application's own producer wrote the record twice. The mirror writes with other
    producer ids. librdkafka raises the epoch of its producer after some errors, and then sends
    records again that may be in the log: https://github.com/confluentinc/librdkafka/issues/4953"""
    one_id = len({batch.producer_id for batch in batches}) == 1
    return one_id and len({batch.producer_epoch for batch in batches}) == len(batches) > 1


def _batch_at(log: Path, place: Place, offset: int) -> Iterator[BatchHeader]:
    for segment in sorted((log / f"{place[0]}-{place[1]}").glob("*.log")):
        for raw in frames(memoryview(segment.read_bytes())):
            batch = BatchHeader.of(raw)
            if batch.base <= offset <= batch.last:
                yield batch


def compare_again(
    topic: FireTopic, tools: KafkaTools, witness: Witness, *, read_committed: bool
) -> Iterator[str]:
    """The mirror read once more from its beginning, by both kinds of readers."""
    for partition, records in tools.read(topic.name, read_committed=read_committed).items():
        tape = witness.tape((topic.name, partition))
        if array("q", map(_number, records)) != tape.numbers:
            yield (
                f"{topic.name}-{partition}: {len(records)} records for readers with "
                f"read_committed={read_committed}, {len(tape)} were read while they came"
            )


def newest(topic: FireTopic, tools: KafkaTools) -> dict[tuple[int, bytes | None], bytes]:
    """Of each key of each partition of a compacted topic, the last value."""
    found: dict[tuple[int, bytes | None], bytes] = {}
    for partition, records in tools.read(topic.name, read_committed=True).items():
        for record in records:
            if record.value is None:
                found.pop((partition, record.key), None)
            else:
                found[partition, record.key] = record.value
    return found


def _number(record: Record) -> int:
    return number_of(record.value, [(n, v or b"") for n, v in record.headers])


def _first_difference(one: array[int] | list[int], other: array[int] | list[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)) - 1)


def _some(offsets: Iterable[int]) -> str:
    found = list(offsets)
    shown = ", ".join(map(str, found[:_SHOWN]))
    return shown if len(found) <= _SHOWN else f"{shown}, … {found[-1]}"
