"""Partitions that go through transforms: their lanes, their stages, and taking them back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config import RegistrySettings, Routes, RunSettings, TransformSettings
from causeway.control import Transform
from causeway.control.transforms import _pickled
from causeway.daemon import spark as daemon_spark
from causeway.daemon import staging
from causeway.daemon.lanes import Fleet, placing
from causeway.daemon.lanes import fleet as fleets
from causeway.daemon.lanes.placing import StageHomes
from causeway.daemon.staging import Staging
from causeway.errors import ConfigError, PrerequisiteError
from causeway.filters import compile_patterns
from causeway.link_topics import Transformed
from causeway.relay import (
    Assign,
    Assignment,
    LaneConnection,
    LaneReport,
    Revoke,
    StageEnded,
    StageSpec,
    StageSpecs,
    StageWanted,
)
from causeway.transform.rules import Shortcut, shortcut_of
from causeway.transform.work import StageWork
from tests.builders import settings as links
from tests.builders.fleet import Heard, Lane, assignment, flow_report

PII = "A->B/pii@0123456789abcdef"
KEY = ("A->B", "orders", 0)
ROUTES = Routes.of(links.link())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "GATHER_S", 0.0)
    monkeypatch.setattr(fleets, "REPORT_INTERVAL_S", 0.0)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def fleet(heard: Heard) -> Fleet:
    """No lane falls silent here, however slow the machine is."""
    fleet = Fleet(RunSettings(lease_s=600.0), {}, local=True)
    fleet.attach("A->B", heard.hear, heard.wait)
    return fleet


def through(partition: int, stage: str = PII) -> Assignment:
    return assignment(partition).replace(transform=stage)


def told(lane: Lane) -> list[str]:
    return [
        s.key for message in lane.sent if isinstance(message, StageSpecs) for s in message.stages
    ]


def analysed(shortcut: Shortcut | None = None) -> Any:
    """What the analysis of a transform finds, in the names of PreparedTransform."""
    return SimpleNamespace(work=StageWork(shortcut=shortcut))


def test_what_goes_through_a_transform_waits_until_it_may_and_then_stays_together(
    fleet: Fleet,
) -> None:
    one, two = Lane(fleet, 0).connect(), Lane(fleet, 1).connect()
    fleet.add([*(through(n) for n in range(6)), assignment(6), assignment(7)])
    assert one.has() | two.has() == {6, 7}, "plain ones wait for nothing"

    fleet.open([(StageSpec(key=PII, name="pii"), 1)])

    assert one.has() >= set(range(6))
    stages = next(n for n, m in enumerate(one.sent) if isinstance(m, StageSpecs))
    first = next(
        n for n, m in enumerate(one.sent) if isinstance(m, Assign) and m.assignments[0].transform
    )
    assert stages < first
    assert told(one) == [f"{PII}/0"]
    assert one.given(3).transform == f"{PII}/0", "two lanes never share a stage's name"
    assert not told(two)
    for n in range(6):
        one.reports(flow_report(n, 5, records=10**6))
    fleet.tick()
    fleet.add([through(8)])
    assert two.has() <= {6, 7}, "nor are they moved, however heavy"
    assert told(one) == [f"{PII}/0"], "once is enough"


def test_a_transform_may_have_several_lanes_and_others_get_others(fleet: Fleet) -> None:
    lanes = [Lane(fleet, n).connect() for n in range(3)]
    other = "A->B/eu@0123456789abcdef"
    fleet.open([(StageSpec(key=PII, name="pii"), 2), (StageSpec(key=other, name="eu"), 1)])
    fleet.add([through(n) for n in range(4)])
    fleet.add([through(n, other) for n in range(4, 6)])
    assert [len(lane.has()) for lane in lanes] == [2, 2, 2]
    assert [told(lane) for lane in lanes] == [[f"{PII}/0"], [f"{PII}/1"], [f"{other}/2"]]


def test_a_home_that_is_gone_is_replaced_and_keeps_its_place_if_it_comes_back() -> None:
    homes = StageHomes()
    homes.open(StageSpec(key=PII, name="pii"), 2)
    assert homes.at(PII, [0, 1, 2]) == [0, 1]
    assert homes.at(PII, [1, 2]) == [1, 2]
    assert homes.at(PII, [0, 1, 2]) == [1, 2]
    assert homes.at(PII, [2]) == [2]
    assert homes.at(PII, [0, 2]) == [2, 0]


def test_a_lane_with_only_a_transform_has_a_load(fleet: Fleet) -> None:
    """Else plain partitions would be moved to it as if it had nothing to do."""
    one = Lane(fleet, 0).connect()
    fleet.open([(StageSpec(key=PII, name="pii"), 1)])
    fleet.add([through(0), through(1)])
    two = Lane(fleet, 1).connect()
    fleet.add([assignment(2), assignment(3)])
    assert (one.has(), two.has()) == ({0, 1}, {2, 3})
    fleet.tick()
    assert (one.has(), two.has()) == ({0, 1}, {2, 3})


def recalled(fleet: Fleet, timeout_s: float = 60.0) -> tuple[threading.Thread, dict[Any, bool]]:
    got: dict[Any, bool] = {}
    thread = threading.Thread(target=lambda: got.update(fleet.recall([KEY], timeout_s)))
    thread.start()
    return thread, got


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_is_recalled_comes_back_with_its_counts_once_it_is_added(
    fleet: Fleet, heard: Heard
) -> None:
    one = Lane(fleet, 0).connect()
    fleet.open([(StageSpec(key=PII, name="pii"), 1)])
    fleet.add([through(0)])
    counts = Transformed(records_in=7, records_out=5, dropped=2, seen=1, without_spark=7)
    thread, got = recalled(fleet)
    until(lambda: isinstance(one.sent[-1], Revoke))
    last = flow_report(0, 7, records=7, final=True)
    one.reports(last.replace(transformed=counts, settled=True))
    thread.join(60)
    assert got == {KEY: True}
    fleet.tick()
    assert not one.has(), "nobody gets it before it is claimed for more"

    more = through(0).replace(leader_epoch=9)
    fleet.add([more])

    assert one.given(0).leader_epoch == 9
    again = flow_report(0, 9, records=2).replace(
        transformed=Transformed(records_in=2, refused=2, seen=4, through_spark=2)
    )
    one.reports(again)
    assert heard.reports[-1].records == 9
    assert heard.reports[-1].transformed == Transformed(
        records_in=9,
        records_out=5,
        dropped=2,
        refused=2,
        seen=5,
        without_spark=7,
        through_spark=2,
    )


def test_what_a_lane_does_not_let_go_of_is_not_recalled_yet(fleet: Fleet) -> None:
    one = Lane(fleet, 0).connect()
    fleet.add([assignment(0)])
    assert fleet.recall([KEY], 0.02) == {}
    one.reports(flow_report(0, 7, final=True))
    assert not one.has()
    assert fleet.recall([KEY], 0.02) == {KEY: False}


def wants(lane: Lane, **stages: str) -> None:
    wanted = tuple(StageWanted(key=key, address=at) for key, at in stages.items())
    lane.says(LaneReport(lane_time=1.0, stages=wanted))


class Launcher:
    """Stands in for the stages of a Spark."""

    made: list[Launcher]

    def __init__(self, spark: Any, on_ended: Callable[[StageEnded], None], prepare: Any) -> None:
        self.on_ended = on_ended
        self.said: list[tuple[str, ...]] = []
        Launcher.made.append(self)

    def warm(self) -> None:
        pass

    def launch(self, key: str, transform: TransformSettings, address: str) -> None:
        self.said.append(("launch", key, transform.name, address))

    def stop(self, key: str) -> None:
        self.said.append(("stop", key))

    def give_up(self, key: str, attempt: str) -> None:
        self.said.append(("give up", key, attempt))

    def stop_all(self) -> None:
        self.said.append(("stop all",))


class Jvm:
    session = "a session"
    death: str | None = None


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> type[Launcher]:
    Launcher.made = []
    monkeypatch.setattr(daemon_spark, "Stages", Launcher)
    return Launcher


def transform(name: str = "pii", **fields: Any) -> Transform:
    settings = TransformSettings(name=name, topics=compile_patterns(".*"), **fields)
    return Transform(settings=settings, identity="00", key=f"A->B/{name}@00", routes=ROUTES)


def test_stages_run_where_lanes_want_them(fleet: Fleet, launcher: type[Launcher]) -> None:
    staged = Staging([transform()], fleet, lambda *_: analysed())
    jvm = cast(Any, Jvm())
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00")])
    assert not one.has()
    staged.step(jvm)
    until(one.has)
    (made,) = launcher.made
    wants(one, **{"A->B/pii@00/0": "@a"})
    for _ in range(2):
        staged.step(jvm)
    assert made.said == [("launch", "A->B/pii@00/0", "pii", "@a")]
    assert staged.running() == {"A->B/pii@00": 1}

    wants(one, **{"A->B/pii@00/0": "@b"})  # a lane that has started anew
    staged.step(jvm)
    assert made.said[1:] == [("stop", "A->B/pii@00/0"), ("launch", "A->B/pii@00/0", "pii", "@b")]

    fleet.on_closed(cast(LaneConnection, one))
    staged.step(jvm)
    assert made.said[3:] == [("stop", "A->B/pii@00/0")]


def test_an_attempt_that_gives_no_answer_is_given_up_and_a_second_stage_launched(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    staged = Staging([transform()], fleet, lambda *_: analysed())
    jvm = cast(Any, Jvm())
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00")])
    staged.step(jvm)
    until(one.has)
    key = "A->B/pii@00/0"
    wanted = (
        StageWanted(key=key, address="@a", hung="the first"),
        StageWanted(key=f"{key}+", address="@b"),
    )
    one.says(LaneReport(lane_time=1.0, stages=wanted))
    staged.step(jvm)
    assert launcher.made[0].said == [
        ("give up", key, "the first"),
        ("launch", key, "pii", "@a"),
        ("launch", f"{key}+", "pii", "@b"),
    ]
    assert staged.running() == {"A->B/pii@00": 2}


MASK = {"rules": "mask value.$.name", "value_format": "json"}


def of(lane: Lane) -> list[StageSpec]:
    return [
        stage
        for message in lane.sent
        if isinstance(message, StageSpecs)
        for stage in message.stages
    ]


def test_rules_that_lanes_carry_out_wait_for_no_analysis(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    """What only the query can do is analysed first, as SQL is."""
    go_on = threading.Event()

    def prepare(_: Any, settings: TransformSettings) -> Any:
        assert go_on.wait(60)
        return analysed(Shortcut((), {}) if settings.name == "sql" else None)

    every = [
        transform("wild", rules="mask value.$.a[*]", value_format="json"),
        transform("sql"),
        transform("plain", **MASK),
    ]
    staged = Staging(every, fleet, prepare)
    one = Lane(fleet, 0).connect()
    fleet.add([through(n, f"A->B/{name}@00") for n, name in enumerate(("wild", "sql", "plain"))])
    staged.step(cast(Any, Jvm()))
    assert one.has() == {2}
    go_on.set()
    until(lambda: len(one.has()) == 3)
    masked = shortcut_of(transform(**MASK).settings)
    assert masked is not None
    shortcuts = {stage.name: stage.shortcut for stage in of(one)}
    assert (shortcuts["plain"], shortcuts["sql"], shortcuts["wild"]) == (
        _pickled(masked),
        _pickled(Shortcut((), {})),
        None,
    )
    assert not any(stage.late for stage in of(one))


def test_of_many_transforms_stages_begin_late_where_records_may_not_need_them(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    names = [f"t{number}" for number in range(9)]
    every = [transform("sql"), *(transform(name, **MASK) for name in names)]
    staged = Staging(every, fleet, lambda *_: analysed())
    one = Lane(fleet, 0).connect()
    fleet.add([through(n, f"A->B/{name}@00") for n, name in enumerate(["sql", *names])])
    staged.step(cast(Any, Jvm()))
    until(lambda: len(one.has()) == 10)
    assert {stage.name for stage in of(one) if not stage.late} == {"sql"}
    assert staged.running() == {each.key: 0 for each in every}


def test_rules_get_no_partition_where_spark_is_too_old_for_their_stages(
    fleet: Fleet, launcher: type[Launcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.2.1")
    staged = Staging([transform(**MASK)], fleet, lambda *_: analysed())
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00")])
    for _ in range(2):
        with pytest.raises(PrerequisiteError, match="they need Spark"):
            staged.step(cast(Any, Jvm()))
    assert not one.has()


def test_rules_beside_what_a_registry_knows_wait_for_the_look_at_it(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    refused = ConfigError("use", "http://registry", "401")

    def prepare(*_: Any) -> Any:
        raise refused

    registry = RegistrySettings(url="http://registry")
    staged = Staging([transform(key_format="avro", registry=registry, **MASK)], fleet, prepare)
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00")])
    jvm = cast(Any, Jvm())
    with pytest.raises(ConfigError, match="401"):
        until(lambda: staged.step(jvm))
    assert not one.has()


def test_another_jvm_gets_them_all_again(fleet: Fleet, launcher: type[Launcher]) -> None:
    checked: list[str] = []

    def prepare(_: Any, settings: TransformSettings) -> Any:
        checked.append(settings.name)
        return analysed()

    staged = Staging([transform()], fleet, prepare)
    one = Lane(fleet, 0).connect()
    staged.step(cast(Any, Jvm()))
    until(lambda: checked)
    wants(one, **{"A->B/pii@00/0": "@a"})
    staged.step(cast(Any, Jvm()))
    first, second = launcher.made
    assert first.said[-1] == ("stop all",)
    assert second.said == [("launch", "A->B/pii@00/0", "pii", "@a")]


def test_a_transform_that_cannot_be_used_ends_the_run_and_gets_no_partition(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    refused = ConfigError("use", "line 3", "rand() is not deterministic")

    def prepare(_: Any, settings: TransformSettings) -> Any:
        if settings.name == "bad":
            raise refused
        return analysed()

    staged = Staging([transform(), transform("bad")], fleet, prepare)
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/bad@00"), through(1, "A->B/pii@00"), assignment(2)])
    jvm = cast(Any, Jvm())
    with pytest.raises(ConfigError, match="rand"):
        until(lambda: staged.step(jvm))
    assert one.has() == {1, 2}


def test_a_jvm_that_dies_over_a_check_leaves_it_to_the_next_one(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    dying, checked = Jvm(), threading.Event()

    def prepare(session: Any, _: Any) -> Any:
        if not checked.is_set():
            threading.Timer(0.1, lambda: setattr(dying, "death", "killed")).start()
            checked.set()
            raise OSError("connection refused")
        return analysed()

    staged = Staging([transform()], fleet, prepare)
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00")])
    staged.step(cast(Any, dying))
    until(checked.is_set)
    until(lambda: dying.death)
    staged.step(cast(Any, dying))
    staged.step(cast(Any, Jvm()))
    until(one.has)


def test_the_reason_of_a_failed_stage_is_shown_for_a_while(
    fleet: Fleet, launcher: type[Launcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = Staging([transform()], fleet, lambda *_: analysed())
    staged.step(cast(Any, Jvm()))
    lanes = [Lane(fleet, n).connect() for n in range(2)]
    for n, lane in enumerate(lanes):
        wants(lane, **{f"A->B/pii@00/{n}": "@a"})
    launcher.made[0].on_ended(StageEnded(key="A->B/pii@00/0", attempt="a", reason="", threw=False))
    assert staged.troubles() == {}
    launcher.made[0].on_ended(
        StageEnded(key="A->B/pii@00/1", attempt="b", reason="DIVIDE_BY_ZERO", threw=True)
    )
    verdicts = [[m for m in lane.sent if isinstance(m, StageEnded)] for lane in lanes]
    assert verdicts == [
        [StageEnded(key="A->B/pii@00/0", attempt="a", reason="", threw=False)],
        [StageEnded(key="A->B/pii@00/1", attempt="b", reason="DIVIDE_BY_ZERO", threw=True)],
    ], "each to its lane"
    assert staged.troubles() == {"A->B/pii@00": "DIVIDE_BY_ZERO"}
    monkeypatch.setattr(staging, "_TROUBLED_S", 0.0)
    assert staged.troubles() == {}


def test_the_reason_is_shown_as_long_as_a_stage_waits(
    fleet: Fleet, launcher: type[Launcher]
) -> None:
    by_schemas = transform(registry=RegistrySettings(url="http://registry"))
    staged = Staging([by_schemas, transform("eu")], fleet, lambda *_: analysed())
    one = Lane(fleet, 0).connect()

    def says(waiting: str | None) -> None:
        wanted = StageWanted(key="A->B/pii@00/0", address="@a", waiting=waiting)
        one.says(LaneReport(lane_time=1.0, stages=(wanted,)))

    says(None)
    assert staged.troubles() == {}
    says("connection refused")
    why = "waits for the schema registry http://registry: connection refused"
    assert staged.troubles() == {"A->B/pii@00": why}
    says(None)
    assert staged.troubles() == {}


@pytest.mark.parametrize("passing", [True, False])
def test_a_registry_that_is_out_of_reach_stops_no_start_and_is_asked_once(
    fleet: Fleet, launcher: type[Launcher], monkeypatch: pytest.MonkeyPatch, passing: bool
) -> None:
    asked, names = list[str](), list[str]()

    def check(settings: RegistrySettings) -> None:
        asked.append(settings.url)
        raise ConfigError("use", settings.url, "connection refused", retriable=passing)

    monkeypatch.setattr("causeway.schemas.check_registry", check)

    def prepare(_: Any, settings: TransformSettings) -> Any:
        names.append(settings.name)
        return analysed()

    monkeypatch.setattr("causeway.transform.plan.prepare", prepare)
    registry = RegistrySettings(url="http://registry")
    both = [transform(name, registry=registry) for name in ("pii", "eu")]
    staged = Staging(both, fleet)
    one = Lane(fleet, 0).connect()
    fleet.add([through(0, "A->B/pii@00"), through(1, "A->B/eu@00")])
    jvm = cast(Any, Jvm())
    if passing:
        staged.step(jvm)
        until(lambda: one.has() == {0, 1})
        assert names == ["pii", "eu"]
    else:
        with pytest.raises(ConfigError, match="connection refused"):
            until(lambda: staged.step(jvm))
        assert not one.has()
    assert asked == ["http://registry"]


def test_without_transforms_nothing_is_made(fleet: Fleet, launcher: type[Launcher]) -> None:
    staged = Staging([], fleet)
    staged.step(cast(Any, Jvm()))
    staged.stop()
    assert not launcher.made
