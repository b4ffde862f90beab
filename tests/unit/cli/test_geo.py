"""`causeway geo`: what it says, what it remembers, and how it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from causeway import geo as geo_package
from causeway.cli import geo_output, geo_run
from causeway.cli.common import console
from causeway.cli.main import main
from causeway.cluster import Cluster
from causeway.errors import UnreachableError
from causeway.geo import local_file as memory
from causeway.geo.destination_status import ChosenTopicStatus, Destination
from causeway.geo.destinations import Added
from causeway.geo.local_file import ClusterAddress, GeoFile
from causeway.geo.topics import ChosenTopicChange, Done
from causeway.link_topics import MirrorDirective, Scope
from causeway.status import DriverStatus, TopicStatus
from tests.builders.settings import GEO
from tests.harness.command import Ended

BY = MirrorDirective(scope=Scope("orders"), who="anna@ops", why="Lyon", at=0)
Geo = Callable[..., Ended]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "geo.json"
    monkeypatch.setenv(memory.GEO_FILE_VARIABLE, str(found))
    for name in ("CAUSEWAY_GEO_ORIGIN", "CAUSEWAY_GEO_ORIGIN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def geo(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Geo:
    monkeypatch.setattr(geo_package, "cluster_id", lambda _: "an id")

    def run(*arguments: str, code: int = 0) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(("geo", *arguments))
        out, err = capsys.readouterr()
        assert ended.value.code == code, err
        return Ended(code=code, out=out, err=err)

    return run


def done(action: str = "add", *, changed: bool = True, **more: Any) -> Done:
    (topic,) = (
        ChosenTopicChange(topic="orders", target="shop.orders", changed=changed, before=BY),
    )
    fields = {"driver": "ops1", "acted": True, **more}
    return Done(destination="dc2", action=action, topics=(topic,), **fields)


def test_the_first_steps_say_which_is_the_next(geo: Geo, path: Path, monkeypatch: Any) -> None:
    assert "causeway geo --origin NAME=host:port" in geo().out
    assert "causeway geo --origin" in geo("topics", "add", "dc2", "orders", code=2).err
    assert "Next: causeway geo destination add" in geo("--origin", "shop=one:9092").out
    assert "no destination" in geo("status", code=2).err
    asked = []

    def add(link: Any, **said: Any) -> Added:
        asked.append((link.name, link.target.bootstrap, said))
        return Added(destination="dc2", cluster="an id", before=None, topics=())

    monkeypatch.setattr(geo_package, "add_destination", add)
    found = geo("destination", "add", "dc2", "--bootstrap", "two:9092", "--reason", "Lyon")
    assert "Next: causeway geo topics add dc2" in found.out
    assert asked == [("shop->dc2", (("two", 9092),), {"known": None, "reason": "Lyon"})]
    assert memory.read_geo_file(path).destinations == (
        ClusterAddress(name="dc2", bootstrap="two:9092", cluster="an id"),
    )
    assert "causeway geo run" in geo().out
    geo("destination", "add", "dc3", code=2)


def test_an_origin_that_does_not_answer_is_not_remembered(
    geo: Geo, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> str:
        raise UnreachableError("connect", "shop", "no broker answered")

    monkeypatch.setattr(geo_package, "cluster_id", fail)
    assert "no broker answered" in geo("--origin", "shop=one:9092", code=3).err
    assert not path.exists()


def test_an_origin_is_remembered_once_and_can_move(geo: Geo, path: Path) -> None:
    geo("--origin", "shop=one:9092")
    before = path.stat().st_mtime_ns
    geo("--origin", "shop=one:9092")
    assert path.stat().st_mtime_ns == before
    config = path.with_name("client.properties")
    config.write_text("client.id = me\n")
    geo("--origin-config", str(config))
    geo("--origin", "shop=two:9092")
    assert memory.read_geo_file(path).origin == ClusterAddress(
        name="shop", bootstrap="two:9092", config=config
    )
    assert "a file has one origin" in geo("--origin", "other=one:9092", code=2).err


def test_a_destination_is_forgotten_without_being_asked(geo: Geo, path: Path) -> None:
    remember(path)
    assert "it knows dc2" in geo("destination", "remove", "dc3", "--forget", code=2).err
    geo("destination", "remove", "dc2", "--forget")
    assert memory.read_geo_file(path).destinations == ()


def test_who_changes_what_is_remembered_at_the_same_time_loses_nothing(
    geo: Geo, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clusters are asked, and drivers waited for, meanwhile."""
    remember(path)

    def also(name: str) -> None:
        place = ClusterAddress(name=name, bootstrap="x:1")
        memory.change_geo_file(path, lambda now: now.with_destination(place))

    def add(link: Any, **_: Any) -> Added:
        also("dc4")
        return Added(destination=link.target.alias, cluster="an id", before=None, topics=())

    def remove(*_: Any, **__: Any) -> Done:
        also("dc5")
        return done("remove destination")

    monkeypatch.setattr(geo_package, "add_destination", add)
    monkeypatch.setattr(geo_package, "remove_destination", remove)
    geo("destination", "add", "dc3", "--bootstrap", "three:9092")
    geo("destination", "remove", "dc2")
    assert [each.name for each in memory.read_geo_file(path).destinations] == ["dc3", "dc4", "dc5"]

    def fail(*_: Any, **__: Any) -> Done:
        raise UnreachableError("connect", "dc3", "no broker answered")

    monkeypatch.setattr(geo_package, "remove_destination", fail)
    assert "--forget" in geo("destination", "remove", "dc3", code=3).err


def test_what_a_driver_refuses_ends_with_its_own_exit_code(
    geo: Geo, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(path)
    answer = done(refused="its file lets nobody choose")
    monkeypatch.setattr(geo_package, "add_topics", lambda *_, **__: answer)
    found = geo("topics", "add", "dc2", "orders", code=9)
    assert "its file lets nobody choose" in found.err
    assert "has not acted" in found.out
    answer = done()
    found = geo("topics", "add", "dc2", "orders", "--json")
    assert json.loads(found.out)["topics"][0]["target_topic"] == "shop.orders"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (done(), "done by ops1"),
        (done(acted=None), "recorded; ops1 will act on it"),
        (done(driver=None, acted=None), "recorded; no `causeway geo run`"),
        (done(acted=False), "has not acted on it"),
        (done(changed=False), "was already added by anna@ops since 1970"),
        (done("resume", changed=False), "was not paused"),
        (done("remove"), "removed"),
        (done("remove destination"), "removed"),
    ],
)
def test_the_outcome_is_printed(capsys: pytest.CaptureFixture[str], what: Done, said: str) -> None:
    geo_output.show_done(console(), what)
    assert said in capsys.readouterr().out


def test_how_far_each_topic_is(geo: Geo, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(path)
    topic = ChosenTopicStatus(
        topic="orders",
        target="shop.orders",
        by=BY,
        paused=None,
        state="failed",
        reasons=("the disk is full",),
        mirror=TopicStatus(
            link="shop->dc2",
            topic="orders",
            target_topic="shop.orders",
            transform=None,
            partitions=2,
            state="failed",
            states={"failed": 2},
            reasons=("the disk is full",),
            lag_records=1_234,
            lag_ms=5_000,
        ),
    )
    driver = DriverStatus(owner="ops1/7", running=True, last_seen_ms=0)
    good = Destination(name="dc2", link=GEO, cluster="x", by=BY, driver=driver, topics=(topic,))
    gone = Destination(name="dc2", link=GEO, error=UnreachableError("connect", "dc2", "no answer"))
    seen = [good]
    monkeypatch.setattr(geo_package, "look_at", lambda _: tuple(seen))
    for command in (("status",), ("topics", "list"), ("destination", "describe", "dc2")):
        out = geo(*command).out
        for said in ("shop.orders", "1,234", "5.0 s", "anna@ops", "Lyon", "the disk is full"):
            assert said in out, command
        assert out.count("driver ") == 1, command
    assert "ops1/7" in geo("destination", "list").out
    (told,) = json.loads(geo("status", "--json").out)["destinations"]
    assert told["topics"][0]["lag_records"] == 1_234
    seen.append(gone)
    assert "no answer" in geo("status", code=3).out
    assert "no answer" in geo("destination", "list", code=3).out


def remember(path: Path) -> GeoFile:
    found = GeoFile(path=path).with_origin(ClusterAddress(name="shop", bootstrap="one:9092"))
    found = found.with_destination(ClusterAddress(name="dc2", bootstrap="two:9092"))
    memory.write_geo_file(found)
    return found


def test_a_run_restarts_if_its_destinations_change(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And waits if there is none; options of the first start are used once."""
    monkeypatch.setattr(geo_run, "_LOOK_S", 0.01)
    found = remember(path)
    runs: list[tuple[list[str], bool]] = []

    def run_settings(settings: Any, *, stop: threading.Event, adopt: bool, **_: object) -> int:
        runs.append(([each.name for each in settings.links], adopt))
        if len(runs) == 1:
            path.write_text("{")  # another program writes the file
            memory.write_geo_file(found.without_destination("dc2"))
            threading.Timer(0.1, memory.write_geo_file, [dc3]).start()
            assert stop.wait(60)
            return 0
        return 5

    dc3 = found.without_destination("dc2").with_destination(
        ClusterAddress(name="dc3", bootstrap="x:1")
    )
    monkeypatch.setattr(geo_run, "run_settings", run_settings)
    code = geo_run.run(found, more=None, until_caught_up=False, start_from=None, adopt=True)
    assert code == 5
    assert runs == [(["shop->dc2"], True), (["shop->dc3"], False)]


def test_a_destination_that_is_away_keeps_no_other_from_its_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = remember(path).with_destination(ClusterAddress(name="dc3", bootstrap="three:9092"))
    away = {"dc2"}
    runs: list[list[str]] = []

    def check(cluster: Cluster, *_: object) -> None:
        if cluster.settings.alias in away:
            raise UnreachableError("reach", cluster.settings.alias, "no answer")

    def run_settings(settings: Any, **_: object) -> int:
        runs.append([each.name for each in settings.links])
        assert not {each.target.alias for each in settings.heartbeat_links} & away
        return 0

    monkeypatch.setattr(Cluster, "bootstrap_check", check)
    monkeypatch.setattr(geo_run, "run_settings", run_settings)

    def run() -> int:
        return geo_run.run(found, more=None, until_caught_up=True, start_from=None, adopt=False)

    assert run() == UnreachableError.exit_code
    assert runs == [["shop->dc3"]]
    assert "nothing is copied to dc2: reach dc2: no answer" in capsys.readouterr().err
    away.clear()
    assert run() == 0
    assert runs[1:] == [["shop->dc2", "shop->dc3"]]
    away |= {"dc2", "dc3"}
    with pytest.raises(UnreachableError):
        run()


def test_a_signal_ends_a_run_also_after_a_change() -> None:
    ending = geo_run.StopOrRestart()
    ending.set()
    ending.restart()
    assert not ending.restarting
