"""A transform that drops, multiplies, routes and rewrites, in SQL and, as its oracle, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from confluent_kafka import KafkaException

from tests.harness.kafka_tools import KafkaTools, Record
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

# Values as tests.harness.writers makes them: a number, a blank, and more.
_SQL = """
SELECT concat(line, ':', value) AS value, IF(n % 5 = 2, '{routed}', NULL) AS topic
FROM (SELECT *, cast(substring_index(value, ' ', 1) AS int) AS n FROM records)
LATERAL VIEW OUTER explode(IF(n % 5 = 1, array('a', 'b', 'c'), array('a'))) lines AS line
WHERE n % 5 != 0
"""


def lines(topic: str, routed: str, name: str = "mixed") -> list[str]:
    """Of a property file: `topic`'s records go through it, some of them to `routed` (both as on the
    source)."""
    sql = " ".join(_SQL.format(routed=routed).split())
    return [
        f"A->B.causeway.transforms = {name}",
        f"A->B.causeway.transform.{name}.topics = {topic}",
        f"A->B.causeway.transform.{name}.value.format = string",
        f"A->B.causeway.transform.{name}.sql = {sql}",
    ]


def expected(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """What becomes of the records of a partition: in its mirror, and in the routed topic."""
    own: list[Record] = []
    routed: list[Record] = []
    for record in records:
        assert record.value is not None
        number = int(record.value.split(b" ")[0])
        if number % 5 == 0:
            continue
        into = routed if number % 5 == 2 else own
        for line in (b"a", b"b", b"c") if number % 5 == 1 else (b"a",):
            into.append(replace(record, value=line + b":" + record.value))
    return own, routed


def await_transformed(
    source: KafkaTools, topic: str, target: KafkaTools, mirror: str, routed: str
) -> None:
    """Until both topics of the target have as many records as what is committed becomes."""
    wanted = {
        partition: expected(records)
        for partition, records in source.read(topic, read_committed=True).items()
    }
    for number, name in enumerate((mirror, routed)):
        counts = {partition: len(made[number]) for partition, made in wanted.items()}
        _await_counts(target, name, counts)


def _await_counts(target: KafkaTools, topic: str, counts: Mapping[int, int]) -> None:
    seen: object = None

    def there() -> bool:
        nonlocal seen
        try:
            if target.partition_count(topic) is None:
                return not any(counts.values())
            seen = ends = target.offsets(topic)
        except KafkaException as error:
            seen = error
            return False
        return all(ends.get(partition, 0) >= count for partition, count in counts.items())

    try:
        await_until(there, PATIENCE_S, f"{topic} has {counts}")
    except AssertionError as error:
        error.add_note(f"{topic} has {seen}")
        raise


def assert_transformed(
    source: KafkaTools,
    topic: str,
    target: KafkaTools,
    mirror: str,
    routed: str,
    made: Callable[[list[Record]], tuple[list[Record], list[Record]]] = expected,
) -> None:
    """Both topics hold what the source's committed records become, once and in order, and nothing
    else, for readers of uncommitted and of committed records."""
    wanted = source.read(topic, read_committed=True)
    for number, name in enumerate((mirror, routed)):
        for read_committed in (False, True):
            found = target.read(name, read_committed=read_committed)
            for partition, records in wanted.items():
                assert [r.content for r in found[partition]] == [
                    r.content for r in made(records)[number]
                ], f"{name}-{partition}, read_committed={read_committed}"
