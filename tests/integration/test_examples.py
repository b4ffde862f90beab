"""Each file in examples/ on real clusters: what goes where, under which name, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from causeway.filters import Verdict
from causeway.formats import load
from causeway.naming import HEARTBEATS
from causeway.operate.plan import plan
from examples import topics
from examples.transforms import write as customers
from tests.harness.kafka.cluster import LocalCluster, start_all
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, run_to_end
from tests.harness.waiting import await_until

EXAMPLES = Path(__file__).parents[2] / "examples"
# All flows on one lane: what could get into another's way is sure to.
QUICK = "refresh.topics.interval.seconds = 1\nspark.master = local[1]\n"
QUICK_YAML = "spark: {master: 'local[1]'}\n"

pytestmark = pytest.mark.integration

Clusters = Mapping[str, KafkaTools]
Place = tuple[str, str]  # alias, topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`written`: what users write to. `copies`: by place, what each is a copy of.

    `heartbeats`: by cluster, whose have come there, each by its way. `left`: topics that look like
    mirrors of the target's own, so they stay where they are. `streams`: by cluster and pattern,
    what a reader of all matching topics gets, as the places where it was written."""

    written: tuple[Place, ...]
    copies: Mapping[Place, Place]
    heartbeats: Mapping[str, tuple[str, ...]]
    left: tuple[Place, ...] = ()
    streams: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)
    separator: str = "."

    def topics(self) -> dict[str, set[str]]:
        """All of each cluster of the file, but internal ones."""
        found = {alias: {HEARTBEATS} for alias in {place[0] for place in self._places()}}
        for alias, topic in self._places():
            found[alias].add(topic)
        for alias, ways in self.heartbeats.items():
            found[alias] |= {f"{way}{self.separator}{HEARTBEATS}" for way in ways}
        return found

    def _places(self) -> Iterator[Place]:
        yield from (*self.written, *self.left, *self.copies)


A, B = ("A", "orders"), ("B", "orders")

EXPECTED = {
    "one-way": Example(
        written=(A,),
        copies={("B", "A.orders"): A},
        heartbeats={"B": ("A",)},
        left=(("A", "B.orders"),),
    ),
    "two-way": Example(
        written=(A, B),
        copies={("A", "B.orders"): B, ("B", "A.orders"): A},
        heartbeats={"A": ("B",), "B": ("A",)},
        streams={("A", r"(B\.)?orders"): (A, B), ("B", r"(A\.)?orders"): (A, B)},
    ),
    "fan-out": Example(
        written=(("A", "prices"), ("A", "rates")),
        copies={
            ("B", "A.prices"): ("A", "prices"),
            ("C", "A.prices"): ("A", "prices"),
            ("C", "A.rates"): ("A", "rates"),
        },
        heartbeats={"B": ("A",), "C": ("A",)},
    ),
    "fan-in": Example(
        written=(("A", "readings.press"), ("B", "readings.press")),
        copies={
            ("C", "A.readings.press"): ("A", "readings.press"),
            ("C", "B.readings.press"): ("B", "readings.press"),
        },
        heartbeats={"C": ("A", "B")},
        streams={
            ("C", r"[AB]\.readings\..*"): (("A", "readings.press"), ("B", "readings.press")),
        },
    ),
    "chain": Example(
        written=(("A", "alerts"), ("B", "alerts")),
        copies={
            ("B", "A.alerts"): ("A", "alerts"),
            ("C", "B.alerts"): ("B", "alerts"),
            ("C", "B.A.alerts"): ("A", "alerts"),
        },
        heartbeats={"B": ("A",), "C": ("B", "B.A")},
    ),
    "identity": Example(
        written=(A,),
        copies={B: A},
        heartbeats={"B": ("A",)},
    ),
    "separator": Example(
        written=(A, ("A", "eu.orders")),
        copies={("B", "A_orders"): A, ("B", "A_eu.orders"): ("A", "eu.orders")},
        heartbeats={"B": ("A",)},
        left=(("A", "B_orders"),),
        separator="_",
    ),
    "yaml": Example(
        written=(A, ("A", "payments.eu")),
        copies={("B", "A.orders"): A, ("B", "A.payments.eu"): ("A", "payments.eu")},
        heartbeats={"B": ("A",)},
        left=(("A", "payments"),),
    ),
    "three-clusters": Example(
        written=(A, B, ("A", "audits")),
        copies={
            ("A", "B.orders"): B,
            ("B", "A.orders"): A,
            ("C", "A.orders"): A,
            ("C", "B.orders"): B,
            ("C", "A.audits"): ("A", "audits"),
        },
        heartbeats={"A": ("B",), "B": ("A",), "C": ("A", "B", "A.B", "B.A")},
        streams={("C", r"[AB]\.orders"): (A, B)},
    ),
}


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    local = [LocalCluster(name) for name in "ABC"]
    try:
        start_all(local)
        yield {each.name: KafkaTools(each.bootstrap) for each in local}
    finally:
        for each in local:
            each.destroy()


@pytest.fixture
def empty(clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clusters]:
    """Without a topic but the brokers' own; their addresses are where the examples look."""
    for alias, tools in clusters.items():
        monkeypatch.setenv(alias, tools.bootstrap)
    yield clusters
    for tools in clusters.values():
        delete_all(tools)


_WHEN_QUICK = ("chain", "yaml")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in _WHEN_QUICK else [pytest.mark.slow]) for n in EXPECTED],
)
def test_an_example_mirrors_what_its_page_says(name: str, empty: Clusters, tmp_path: Path) -> None:
    """Its own file, but for QUICK. Twice a topic grows once its copies are whole: when the copies
    have grown as well, each flow has looked at the clusters again, and had its chance to mirror a
    mirror."""
    expected = EXPECTED[name]
    wanted = expected.topics()
    file = quick(EXAMPLES / name, tmp_path)
    for alias, topic in (*expected.written, *expected.left):
        topics.write(empty[alias].bootstrap, topic)

    def each_copy(check: Callable[[KafkaTools, str, KafkaTools, str], None]) -> None:
        for (target, mirror), (source, topic) in expected.copies.items():
            check(empty[source], topic, empty[target], mirror)

    with Running("run", file, directory=tmp_path) as run:
        each_copy(await_copied)
        for partitions in (topics.PARTITIONS + 1, topics.PARTITIONS + 2):
            for alias, topic in expected.written:
                empty[alias].add_partitions(topic, partitions)
                topics.write(empty[alias].bootstrap, topic)
            each_copy(await_copied)
        await_until(
            lambda: {alias: present(empty[alias]) for alias in wanted} == wanted,
            PATIENCE_S,
            f"{wanted}, with records",
        )
        assert run.stop() == 0
        assert "Traceback" not in run.log

    each_copy(assert_same)
    for (alias, pattern), places in expected.streams.items():
        found = topics.read(empty[alias].bootstrap, pattern)
        written = [topics.counts(empty[place[0]].bootstrap)[place[1]] for place in places]
        assert sorted(found.values()) == sorted(written)
    if name != "yaml":  # which leaves one topic out by its name alone
        assert in_a_circle(file) >= set(expected.left)


@pytest.mark.slow
def test_transforms_keep_what_is_private(empty: Clusters, tmp_path: Path) -> None:
    """Those of examples/yaml/transforms.yaml: half of the notes arrive, no address in any."""
    source, target = empty["A"], empty["B"]
    for topic in ("orders", "notes"):
        topics.write(source.bootstrap, topic)
    customers.write("customers", source.bootstrap, 60)
    file = quick(EXAMPLES / "yaml" / "transforms.yaml", tmp_path)

    run_to_end(file)

    assert_same(source, "orders", target, "A.orders")
    assert values(target, "A.notes") == sorted(
        f"notes {number} written to (hidden)".encode() for number in range(0, 100, 2)
    )
    wanted = [json.loads(value) for value in values(source, "customers")]
    for one in wanted:
        local, domain = one["email"].split("@")
        one["email"] = re.sub(r"\w", "*", local) + "@" + domain
        if "card" in one:
            one["card"] = "****-****-****-" + one["card"][-4:]
    found = [json.loads(value) for value in values(target, "A.customers")]
    assert sorted(found, key=itemgetter("id")) == sorted(wanted, key=itemgetter("id"))


def values(tools: KafkaTools, topic: str) -> list[bytes]:
    """Of all but tombstones."""
    found = (record.value for records in tools.read(topic).values() for record in records)
    return sorted(value for value in found if value is not None)


def quick(example: Path, directory: Path) -> Path:
    """A copy of an example's file that looks at the clusters each second."""
    if example.is_dir():
        (example,) = [*example.glob("mm2.properties"), *example.glob("causeway.yaml")]
    text = example.read_text()
    more = QUICK
    if example.suffix == ".yaml":
        text, more = text.replace("interval: 5s", "interval: 1s"), QUICK_YAML
    file = directory / example.name
    file.write_text(text + more)
    return file


def present(tools: KafkaTools) -> set[str]:
    """Topics that hold records; nothing while one is so new that it has no leader."""
    try:
        return {topic for topic, records in topics.counts(tools.bootstrap).items() if records}
    except KafkaException:
        return set()


def in_a_circle(file: Path) -> set[Place]:
    """What `causeway plan` leaves out since its name says that it came from the target."""
    return {
        (each.link.source.alias, topic.topic)
        for each in plan(load(file)).links
        for topic in each.left_out
        if topic.code == Verdict.CYCLE
    }


def delete_all(tools: KafkaTools) -> None:
    """But for the brokers' own topics."""

    def there() -> list[str]:
        return [t for t in tools.topics() if not t.startswith("__") or t.startswith("__causeway")]

    if there():  # librdkafka refuses an empty list
        for deleted in tools.admin.delete_topics(there()).values():
            deleted.result(PATIENCE_S)
    await_until(lambda: not there(), PATIENCE_S, "no topics")
