"""Work with transforms: the keys that each system gets for it, and what the records look like.

The flights of the JSON work, of which the rules and queries below treat some fields; `dest` is left
alone and tells the last record.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psutil

from bench import latency, smt, start, throughput
from bench.source import SHAPES, Shape, known_flight
from bench.stage import Run, Stage, create_topic, delete_topic
from bench.stream import Form
from bench.systems import CAUSEWAY, CAUSEWAY_QUIET, CAUSEWAY_SQL, MM2_SMT
from bench.target import Target

_READY_S, _STAGES_S = 120.0, 90.0
# Throw-away keys: what they protect is public.
_PEPPER = "only-for-measuring-with"
_AES_KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
_COLUMNS = {
    **dict.fromkeys(("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"), "INT"),
    **dict.fromkeys(("arr_time", "sched_arr_time", "arr_delay"), "INT"),
    **{"carrier": "STRING", "flight": "INT", "tailnum": "STRING", "origin": "STRING"},
    **{"dest": "STRING", "air_time": "INT", "distance": "INT", "hour": "INT", "minute": "INT"},
    **{"scheduled_departure": "STRING", "carrier_name": "STRING"},
}
_TREATED = {
    "carrier_name": "mask(value.carrier_name)",
    "tailnum": "sha2(concat(secrets.pepper, value.tailnum), 256)",
}
FILTER = {
    "value.format": "json",
    "sql": "SELECT * FROM records WHERE get_json_object(value, '$.origin') <> 'LGA'",
}
MASK = {
    "rules": "mask value.$.carrier_name; hash value.$.tailnum with pepper",
    "secret.pepper": _PEPPER,
}
MASK_SQL = {
    "value.format": "json",
    "value.schema": ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items()),
    "sql": "SELECT struct("
    + ", ".join(f"{_TREATED.get(name, f'value.{name}')} AS {name}" for name in _COLUMNS)
    + ") AS value FROM records",
    "secret.pepper": _PEPPER,
}
AES = {"rules": "encrypt value.$.tailnum with name_key", "secret.name_key": _AES_KEY}


def _with_odd() -> Iterator[tuple[bytes | None, bytes]]:
    """The flights; one of a hundred is not plain, by a field that no rule treats."""
    for number, (key, value) in enumerate(SHAPES[0].records()):
        odd = number % 100 == 50
        yield key, value.replace(b'"dest":"', b'"dest":"\\/', 1) if odd else value


_FLIGHTS = replace(SHAPES[0], backlog=1_000_000, warm_up=400_000, known=known_flight)
SHAPE_OF = {
    name: replace(_FLIGHTS, name=name)
    for name in ("transform-copy", "transform-mask", "transform-aes")
} | {
    "transform-filter": replace(
        _FLIGHTS, name="transform-filter", survives=lambda value: b'"origin":"LGA"' not in value
    ),
    "transform-odd": replace(_FLIGHTS, name="transform-odd", records=lambda: list(_with_odd())),
    "transform-quiet": replace(SHAPES[0], name="transform-quiet", known=known_flight),
}
TITLES = {
    "transform-copy": "JSON, copied",
    "transform-quiet": "JSON, copied, three rounds",
    "transform-filter": "JSON, about two thirds kept by a field",
    "transform-mask": "JSON, one field masked, one hashed",
    "transform-odd": "JSON, one field masked, one hashed; 1 % with a backslash in another field",
    "transform-aes": "JSON, one field encrypted with AES",
}
# MirrorMaker 2 has four tasks; two lanes are as many as there are cores.
_LANES = {"lanes": "2"}
_OURS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "transform-filter": {CAUSEWAY: FILTER},
    "transform-mask": {CAUSEWAY: MASK, CAUSEWAY_SQL: MASK_SQL},
    "transform-odd": {CAUSEWAY: MASK},
    "transform-aes": {CAUSEWAY: AES},
}

Say = Callable[[str], None]


def measure_throughput(
    stage: Stage, name: str, shape: Shape, say: Say, *, settle_s: float
) -> throughput.Throughput:
    with ExitStack() as stack:
        quiet = stack.enter_context(_quiet_topic(stage)) if name == CAUSEWAY_QUIET else ""

        def keys(run: Run) -> dict[str, str]:
            if quiet:
                return _beside(run, quiet)
            if name == MM2_SMT:
                return _connector(run, shape.name)
            mine = _OURS.get(shape.name, {}).get(name)
            return transforming(run, {**_LANES, **mine}) if mine else {}

        def ready(run: Run, alive: Callable[[], None]) -> None:
            """Or the stage would start on the clock."""
            if quiet:
                mirrored = Target(stage.target.internal_bootstrap, f"{run.alias}.{quiet}", 1)
                mirrored.await_ends({0: 1}, alive=alive, timeout_s=_READY_S)
            if name in _OURS.get(shape.name, {}):
                _await_stages(alive)

        return throughput.measure(
            stage, name, shape, say, settle_s=settle_s, keys=keys, ready=ready
        )


def _await_stages(alive: Callable[[], None]) -> None:
    """Until none of our children is a direct worker: what comes goes to stages by then. If that
    takes long they start on the clock after all."""
    until = time.monotonic() + _STAGES_S
    while time.monotonic() < until and _has_direct_worker():
        alive()
        time.sleep(0.5)


def _has_direct_worker() -> bool:
    for process in psutil.Process().children(recursive=True):
        try:
            if "causeway.transform.stage.direct_worker" in process.cmdline():
                return True
        except psutil.Error:  # it has ended just now
            continue
    return False


def measure_latency(
    stage: Stage, name: str, say: Say, *, warm_up_s: float, measured_s: float
) -> latency.Latency:
    return latency.measure(
        stage,
        name,
        say,
        warm_up_s=warm_up_s,
        measured_s=measured_s,
        form=Form(_pack, _unpack),
        keys=lambda run: transforming(run, MASK),
    )


def measure_first(stage: Stage, name: str, say: Say) -> start.Start:
    def arrives(value: bytes | None) -> bool:
        found = json.loads(value or b"{}")
        return found.get("dest") == "first" and len(found["tailnum"]) == 64

    return start.measure(
        stage,
        name,
        1,
        1,
        say,
        value=known_flight(b"first"),
        keys=lambda run: transforming(run, MASK),
        arrives=arrives,
    )


def transforming(run: Run, keys: Mapping[str, str], topic: str = "") -> dict[str, str]:
    """Keys that give a topic, the run's own unless named, to a transform."""
    return {
        "causeway.transforms": "measured",
        "causeway.transform.measured.topics": re.escape(topic or run.topic),
        **{f"causeway.transform.measured.{key}": value for key, value in keys.items()},
    }


def _beside(run: Run, quiet: str) -> dict[str, str]:
    """Keys that mirror the run's topic as it is, and beside it a topic that is transformed."""
    topics = f"{re.escape(run.topic)}|{re.escape(quiet)}"
    return {**transforming(run, MASK, quiet), f"{run.alias}->target.topics": topics}


def _connector(run: Run, work: str) -> dict[str, str]:
    """Keys that have MirrorMaker 2 do the work with Kafka's transformations."""
    if work == "transform-filter":
        keys = smt.dropping(run.mirrored, "origin", "LGA")
    else:
        keys = smt.masking(run.mirrored, "carrier_name", "tailnum")
    return {f"{run.alias}->target.{key}": value for key, value in keys.items()}


@contextmanager
def _quiet_topic(stage: Stage) -> Iterator[str]:
    topic = f"quiet-{secrets.token_hex(4)}"
    create_topic(stage.source.internal_bootstrap, topic, 1, {})
    start.write(stage.source.internal_bootstrap, topic, 1, 1, known_flight(b"quiet"))
    try:
        yield topic
    finally:
        delete_topic(stage.source.internal_bootstrap, topic)


def _pack(number: int, sent: int, size: int) -> bytes:
    fields = {"number": number, "sent": sent, "carrier_name": "United", "tailnum": "N14228"}
    value = json.dumps({**fields, "filler": ""}).encode()
    return value[:-2] + b"x" * (size - len(value)) + value[-2:]


def _unpack(value: bytes) -> tuple[int, int]:
    fields = json.loads(value)
    return fields["number"], fields["sent"]
