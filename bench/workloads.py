"""What is measured: workloads by name, each with what it is measured on and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench import (
    asked,
    capacity,
    codecs,
    everyday,
    everyday_report,
    far,
    groups,
    latency,
    limit_report,
    limits,
    many,
    offsets,
    page,
    simulated,
    soak,
    start,
    throughput,
    transforms,
    two_data_centres,
    verify,
)
from bench.source import SHAPES, Shape
from bench.stage import Stage, staged, staged_secured
from bench.stream import Bursts
from bench.systems import (
    BARE,
    CAUSEWAY,
    CAUSEWAY_BEFORE,
    CAUSEWAY_KEEPS,
    CAUSEWAY_QUIET,
    CAUSEWAY_SQL,
    MM2,
    MM2_SMT,
    MM2_TUNED,
    TWO_PRODUCERS,
)

_CPU_BACKLOGS = {"json": 4}  # compressed it is drained in two seconds, too few to tell
# In some rounds what the kernel copies takes three times as long, whoever asks for it.
_CPU_ROUNDS = 5
_QUICK_FACTOR = 50

Say = Callable[[str], None]
Measure = Callable[[Stage, str, Say], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`rounds`: how often each system is measured, unless told otherwise. `uncounted`: rounds
    before these, in which the brokers' Java machines compile what this work needs of them.
    `systems`: what is measured, if not what was asked for. `staged`: the clusters it is measured
    on, which stay for those that follow and want the same."""

    name: str
    title: str
    settings: dict[str, Any]
    measure: Measure
    rounds: int = 3
    uncounted: int = 0
    systems: Sequence[str] = ()
    staged: Callable[[], AbstractContextManager[Stage]] = staged


def workloads(*, quick: bool) -> list[Workload]:
    factor = _QUICK_FACTOR if quick else 1
    parts, each = (50, 5) if quick else (1000, 5)
    crowd = 50 if quick else 5_000
    return [
        *(_throughput(shape.shortened(factor), settle_s=1 if quick else 5) for shape in SHAPES),
        Workload(
            name="partitions",
            title=f"{parts:,} partitions, {each} records each, start included",
            settings={},
            measure=lambda stage, name, say: start.measure(stage, name, parts, each, say),
        ),
        Workload(
            name="first",
            title="from the start to the first record",
            settings={},
            measure=lambda stage, name, say: start.measure(stage, name, 1, 1, say),
        ),
        Workload(
            name="groups",
            title=f"{crowd:,} groups of {groups.PARTITIONS} partitions, all moved at once",
            settings={"intervals": "1 s"},
            measure=lambda stage, name, say: groups.measure(stage, name, crowd, say),
            rounds=1,
            systems=[CAUSEWAY],
        ),
        Workload(
            name="latency",
            title=f"latency at {latency.PER_S} records/s",
            settings={"tuned": "linger.ms=0"},
            measure=lambda stage, name, say: latency.measure(
                stage, name, say, warm_up_s=3 if quick else 20, measured_s=5 if quick else 60
            ),
            rounds=2,
            uncounted=1,
        ),
        _verify(SHAPES[1].shortened(factor)),
        _two_data_centres(400_000 // factor),
        *_asked(quick=quick),
        *_everyday(quick=quick),
        *_idle(quick=quick),
        _page(5_000 if quick else 50_000),
        *_transforms(quick=quick),
        *_offsets(quick=quick),
        *_codecs(quick=quick),
        *_limits(quick=quick),
    ]


def _offsets(*, quick: bool) -> Iterator[Workload]:
    """With the source's offsets kept, beside translated offsets."""
    factor, parts = (_QUICK_FACTOR, 50) if quick else (1, 1000)
    both = [CAUSEWAY, CAUSEWAY_KEEPS]
    shape = SHAPES[1].shortened(factor)
    yield replace(
        _throughput(shape, settle_s=1 if quick else 5),
        name=f"{offsets.PREFIX}dense",
        title=f"{shape.title}, one marker",
        systems=both,
    )
    count = 8_000 // factor
    yield Workload(
        name=f"{offsets.PREFIX}transactions",
        title=f"transactions of {offsets.EACH} records of 1 kB, {offsets.PARTITIONS} partitions",
        settings={"transactions": f"{count:,}"},
        measure=lambda stage, name, say: offsets.measure(stage, name, count, say),
        systems=both,
    )
    yield Workload(
        name=f"{offsets.PREFIX}start",
        title=f"{parts:,} partitions, 5 records each, start included",
        settings={},
        measure=lambda stage, name, say: start.measure(stage, name, parts, 5, say),
        systems=both,
    )
    yield Workload(
        name=f"{offsets.PREFIX}latency",
        title=f"latency at {latency.PER_S} records/s",
        settings={},
        measure=lambda stage, name, say: latency.measure(
            stage, name, say, warm_up_s=3 if quick else 20, measured_s=5 if quick else 60
        ),
        rounds=2,
        systems=both,
    )
    filled = 50_000_000 // factor
    yield Workload(
        name=f"{offsets.PREFIX}beginning",
        title="offsets filled below the first record of a partition",
        settings={"offsets": f"{filled:,}"},
        measure=lambda stage, _, say: offsets.measure_beginning(stage, filled, say),
        systems=[CAUSEWAY_KEEPS],
    )


def _codecs(*, quick: bool) -> Iterator[Workload]:
    """What is compressed on the way, beside MirrorMaker 2 with the same key."""
    settle_s = 1 if quick else 5
    for codec in codecs.CODECS:
        shape = codecs.shape(codec).shortened(_QUICK_FACTOR if quick else 1)
        work = _throughput(shape, settle_s=settle_s)
        yield replace(
            work,
            settings={"all": f"producer.compression.type={codec}", **work.settings},
            measure=partial(codecs.measure, codec, shape, settle_s),
        )


def _verify(shape: Shape) -> Workload:
    return Workload(
        name="verify",
        title=f"verify, {shape.title}",
        settings={"mirrored": f"{shape.backlog:,} records"},
        measure=lambda stage, name, say: verify.measure(stage, name, shape, say),
        systems=[CAUSEWAY],
    )


def _two_data_centres(count: int) -> Workload:
    return Workload(
        name="two-data-centres",
        title=f"each record to two clusters, {two_data_centres.SIZE / 1000:g} kB",
        settings={"records": f"{count:,}", "policy": "both"},
        measure=lambda stage, name, say: two_data_centres.measure(stage, name, count, say),
        rounds=5,
        uncounted=1,
        systems=[TWO_PRODUCERS, CAUSEWAY],
    )


def _asked(*, quick: bool) -> Iterator[Workload]:
    """To be compared with `json` and `latency`."""
    beside = f", {asked.PER_S} HTTP requests/s beside it"
    shape = SHAPES[0].shortened(_QUICK_FACTOR if quick else 1)
    yield Workload(
        name=f"{shape.name}-asked",
        title=f"{shape.title}{beside}",
        settings={"backlog": f"{shape.backlog:,} records", "warm-up": f"{shape.warm_up:,}"},
        measure=lambda stage, name, say: asked.measure_throughput(
            stage, name, shape, say, settle_s=1 if quick else 5
        ),
        systems=[CAUSEWAY],
    )
    yield Workload(
        name="latency-asked",
        title=f"latency at {latency.PER_S} records/s{beside}",
        settings={},
        measure=lambda stage, name, say: asked.measure_latency(
            stage, name, say, warm_up_s=3 if quick else 20, measured_s=5 if quick else 60
        ),
        rounds=2,
        uncounted=1,
        systems=[CAUSEWAY],
    )


def _everyday(*, quick: bool) -> Iterator[Workload]:
    topics, each = (4, 25) if quick else (20, 50)
    bursts = Bursts(10, 2, 5) if quick else Bursts(60, 10, 20)
    rows: list[tuple[str, everyday.Load, list[str]]] = [
        (str(per_s), everyday.Load(per_s=per_s, topics=topics, each=each), [])
        for per_s in ((100,) if quick else (1_000, 3_000))
    ]
    low, high = (100, 100) if quick else (1_000, 3_000)
    rows += [
        (
            everyday_report.MANY,
            everyday.Load(per_s=high, topics=5 * topics, each=each),
            [CAUSEWAY],
        ),
        (
            everyday_report.BURSTS,
            everyday.Load(per_s=low, topics=topics, each=each, bursts=bursts),
            [CAUSEWAY],
        ),
        (
            everyday_report.GROUPS,
            everyday.Load(per_s=low, topics=topics, each=each, groups=50 if quick else 500),
            [CAUSEWAY],
        ),
    ]
    for name, load, systems in rows:
        seconds = 120 if load.bursts is not None else 60
        yield Workload(
            name=f"{everyday_report.PREFIX}{name}",
            title=load.title,
            settings={"tuned": "linger.ms=20"},
            measure=partial(
                everyday.measure,
                load,
                warm_up_s=3 if quick else 20,
                measured_s=12 if quick else seconds,
            ),
            rounds=2,
            systems=systems,
        )


def _idle(*, quick: bool) -> Iterator[Workload]:
    # At rest is what has not moved for a minute: until then, a look is at what is recent, too.
    settle_s, idle_s = (5.0, 5.0) if quick else (90.0, 60.0)
    for topics in (3,) if quick else (100, 1_000):
        yield Workload(
            name=f"{limit_report.IDLE}{10 * topics}",
            title=f"{10 * topics:,} partitions to which nothing is written",
            settings={"after": f"{settle_s:g} s", "for": f"{idle_s:g} s"},
            measure=partial(_capacity, topics, settle_s, idle_s),
            rounds=1,
            systems=[CAUSEWAY],
        )


def _capacity(
    topics: int, settle_s: float, idle_s: float, stage: Stage, name: str, say: Say
) -> capacity.Capacity:
    return capacity.measure(stage, name, topics, 10, say, settle_s=settle_s, idle_s=idle_s)


def _page(partitions: int) -> Workload:
    return Workload(
        name="page",
        title=f"the page of {partitions // simulated.EACH:,} topics × {simulated.EACH} partitions",
        settings={"moving": "each tenth partition, each second"},
        measure=lambda _stage, _name, say: page.measure(partitions, say),
        rounds=1,
        systems=[CAUSEWAY],
    )


def _limits(*, quick: bool) -> Iterator[Workload]:
    """What a batch costs, beside an older commit and a bare relay; TLS; and clusters far away."""
    factor, settle_s = (_QUICK_FACTOR, 1) if quick else (1, 5)
    for partitions in (4, 400):
        for shape in SHAPES[:2]:
            more = _CPU_BACKLOGS.get(shape.name, 1)
            long = replace(shape, backlog=more * shape.backlog)
            spread = long.spread(partitions).shortened(factor)
            yield replace(
                _throughput(spread, settle_s=settle_s),
                name=f"{limits.CPU}{shape.name}-{partitions}",
                measure=partial(limits.measure, spread, settle_s),
                rounds=_CPU_ROUNDS,
                systems=[CAUSEWAY, CAUSEWAY_BEFORE, BARE],
            )
    for shape in SHAPES[:2]:
        work = _throughput(shape.shortened(2 * factor), settle_s=settle_s)
        yield replace(
            work,
            name=f"{shape.name}{limits.TLS}",
            title=f"{shape.title}, TLS 1.3 and SCRAM on both sides",
            rounds=2,
            staged=staged_secured,
        )
    shape = SHAPES[1].shortened(2 * factor)
    for line in far.LINES:
        yield replace(
            _throughput(shape, settle_s=settle_s),
            name=line.name,
            title=f"{shape.title}, {line.title}",
            measure=partial(far.measure, line, shape, settle_s),
            rounds=2,
            systems=far.SYSTEMS,
            staged=partial(far.staged, line),
        )


def _transforms(*, quick: bool) -> Iterator[Workload]:
    """What is beside MirrorMaker 2's plain copy is measured once for all of them."""
    systems = {
        "transform-copy": [MM2, MM2_TUNED, CAUSEWAY],
        "transform-quiet": [CAUSEWAY, CAUSEWAY_QUIET],
        "transform-filter": [CAUSEWAY, MM2_SMT],
        "transform-mask": [CAUSEWAY, CAUSEWAY_SQL, MM2_SMT],
        "transform-odd": [CAUSEWAY],
        "transform-aes": [CAUSEWAY],
    }
    for name, title in transforms.TITLES.items():
        shape = transforms.SHAPE_OF[name].shortened(_QUICK_FACTOR if quick else 1)
        yield Workload(
            name=name,
            title=title,
            settings={"backlog": f"{shape.backlog:,} records", "warm-up": f"{shape.warm_up:,}"},
            measure=partial(_transform, shape, 1 if quick else 3),
            rounds=3 if name == "transform-quiet" and not quick else 1,
            systems=systems[name],
        )
    yield Workload(
        name="transform-latency",
        title=f"latency at {latency.PER_S} records/s, one field masked, one hashed",
        settings={},
        measure=lambda stage, name, say: transforms.measure_latency(
            stage, name, say, warm_up_s=3 if quick else 20, measured_s=5 if quick else 60
        ),
        rounds=1,
        systems=[CAUSEWAY],
    )
    yield Workload(
        name="transform-first",
        title="from the start to the first transformed record",
        settings={},
        measure=transforms.measure_first,
        rounds=1 if quick else 3,
        systems=[CAUSEWAY],
    )
    count, each = (3, 4) if quick else (50, 10)
    yield Workload(
        name="transform-many",
        title=f"{count} transforms on {count * each} topics in one link",
        settings={},
        measure=lambda stage, name, say: many.measure(stage, name, count, each, say),
        rounds=1,
        systems=[CAUSEWAY],
    )


def _transform(
    shape: Shape, settle_s: float, stage: Stage, name: str, say: Say
) -> throughput.Throughput:
    return transforms.measure_throughput(stage, name, shape, say, settle_s=settle_s)


def _throughput(shape: Shape, *, settle_s: float) -> Workload:
    mirror = " ".join(f"{key}={value}" for key, value in shape.mirror.items())
    return Workload(
        name=shape.name,
        title=shape.title,
        settings={
            "backlog": f"{shape.backlog:,} records",
            "warm-up": f"{shape.warm_up:,}",
            "tuned": mirror,
        },
        measure=lambda stage, name, say: throughput.measure(
            stage, name, shape, say, settle_s=settle_s
        ),
        uncounted=1,
    )


def soaking(minutes: float) -> Workload:
    return Workload(
        name="soak",
        title=f"memory over {minutes:g} min at {soak.PER_S:,} records/s of 1 kB",
        settings={},
        measure=lambda stage, name, say: soak.measure(stage, name, minutes, say),
        rounds=1,
        systems=[CAUSEWAY],
    )
