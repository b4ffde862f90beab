"""Geo-replication without a file, on real brokers: what is chosen is copied, once, and stays where
it is when it is chosen no more. Lanes are real processes; for the whole way, so is Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from causeway.cli.main import main
from causeway.cluster import clusters
from causeway.config import HttpSettings, LinkSettings, RunSettings, Settings
from causeway.errors import ConfigError, ConflictError
from causeway.geo import destination_status, destinations, settings, topics
from causeway.geo.local_file import ClusterAddress, GeoFile
from causeway.http import served
from causeway.link_topics import DirectivePlan, LinkDirectives, PauseDirective, write_directives
from causeway.model import State
from causeway.status import Role
from tests.harness.browser import Watched, chromium
from tests.harness.command import Ended
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@dataclass
class Pair:
    """An origin and a destination of this test's own, by name: what is chosen stands on the broker
    that tests share."""

    source: KafkaTools
    target: KafkaTools
    link: LinkSettings
    origin: str

    def fill(self, topic: str, count: int, first: int = 0) -> None:
        self.source.produce(
            topic,
            [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(first, first + count)],
        )

    def await_same(self, topic: str) -> None:
        mirror = f"{self.origin}.{topic}"
        await_copied(self.source, topic, self.target, mirror)
        assert_same(self.source, topic, self.target, mirror)

    def arrived(self, topic: str) -> int:
        return sum(self.target.offsets(f"{self.origin}.{topic}").values())

    def standing(self) -> dict[str, destination_status.ChosenTopicStatus]:
        (found,) = destination_status.look_at(
            Settings(links=(self.link,), run=RunSettings(), spark={})
        )
        assert found.error is None
        return {each.topic: each for each in found.topics}


@pytest.fixture
def pair(source: KafkaTools, target: KafkaTools, prefix: str, tmp_path: Path) -> Pair:
    origin = prefix.partition("-")[0]
    remembered = (
        GeoFile(path=tmp_path / "geo.json")
        .with_origin(ClusterAddress(name=origin, bootstrap=source.bootstrap))
        .with_destination(ClusterAddress(name=f"{origin}d", bootstrap=target.bootstrap))
    )
    return Pair(source, target, settings.link_to(remembered, f"{origin}d"), origin)


@pytest.mark.slow
def test_topics_that_are_chosen_are_copied_and_those_chosen_no_more_stay(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the driver runs: with the records that were there before, and with none lost or doubled
    through a pause, and through being removed, written to, and added again."""
    one, other = prefix + "one", prefix + "other"
    for topic in (one, other):
        pair.source.create_topic(topic, 2)
        pair.fill(topic, 100)
    destinations.add_destination(pair.link, who="anna@ops")
    with RunningDaemon(monkeypatch, pair.link) as run:
        run.await_role(Role.LEADING)
        done = topics.add_topics(pair.link, [one], who="anna@ops", reason="Lyon", wait_s=PATIENCE_S)
        assert (done.acted, done.refused) == (True, None)
        pair.await_same(one)
        assert pair.target.partition_count(f"{pair.origin}.{other}") is None
        pair.fill(one, 100, first=100)
        pair.await_same(one)

        assert topics.add_topics(pair.link, [other], wait_s=PATIENCE_S).acted
        pair.await_same(other)
        done = topics.pause_topics(pair.link, [other], who="ben@ops", wait_s=PATIENCE_S)
        assert done.acted
        run.await_state(other, State.PAUSED, 2)
        pair.fill(other, 100, first=100)
        pair.fill(one, 100, first=200)
        pair.await_same(one)
        assert pair.arrived(other) == 100
        found = pair.standing()
        assert (found[one].by.who, found[one].by.why) == ("anna@ops", "Lyon")
        assert (found[other].state, found[other].lag_records) == ("paused", 100)
        assert topics.resume_topics(pair.link, [other], wait_s=PATIENCE_S).acted
        pair.await_same(other)

        assert topics.remove_topics(pair.link, [one], wait_s=PATIENCE_S).acted
        assert pair.standing().keys() == {other}
        await_until(lambda: not any(topic == one for topic, _ in run.partitions()))
        pair.fill(one, 100, first=300)
        pair.fill(other, 100, first=200)
        pair.await_same(other)
        assert pair.arrived(one) == 300, "it stays, and nothing comes"
        assert topics.add_topics(pair.link, [one], wait_s=PATIENCE_S).acted
        pair.await_same(one)
        run.await_state(one, State.RUNNING, 2)

        assert topics.pause_topics(pair.link, [one], wait_s=PATIENCE_S).acted
        pair.fill(one, 100, first=400)
        assert topics.remove_topics(pair.link, [one], wait_s=PATIENCE_S).acted
        assert pair.arrived(one) == 400, "its pause was over, and nothing came all the same"
        assert topics.add_topics(pair.link, [one], wait_s=PATIENCE_S).acted
        pair.await_same(one)
    assert run.result == 0


def test_what_is_chosen_again_but_was_made_anew_meanwhile_stops(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    pair.source.create_topic(topic, 2)
    pair.fill(topic, 100)
    destinations.add_destination(pair.link)
    with RunningDaemon(monkeypatch, pair.link) as run:
        run.await_role(Role.LEADING)
        topics.add_topics(pair.link, [topic], wait_s=PATIENCE_S)
        pair.await_same(topic)
        topics.remove_topics(pair.link, [topic], wait_s=PATIENCE_S)
        pair.source.delete_topic(topic)
        pair.source.create_topic(topic, 2)
        pair.fill(topic, 10)
        topics.add_topics(pair.link, [topic], wait_s=PATIENCE_S)
        found = run.await_state(topic, State.STOPPED, 2)
        assert "was deleted and recreated on the source" in str(found.reason)
        assert pair.arrived(topic) == 100
    (found_,) = pair.standing().values()
    assert found_.state == "stopped"


def test_two_at_once_and_a_driver_whose_file_lets_nobody_choose(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "orders"
    pair.source.create_topic(topic, 2)
    pair.fill(topic, 10)
    destinations.add_destination(pair.link)

    def amid(_: LinkDirectives) -> DirectivePlan:
        topics.add_topics(pair.link, [topic], who="ben@ops", wait_s=None)
        wish = PauseDirective(who="anna@ops", at=1)
        return DirectivePlan(changes=((wish.key, wish),))

    with (
        clusters() as connect,
        pytest.raises(ConflictError, match="concurrent administrative request"),
    ):
        write_directives(connect(pair.link.target), pair.link, amid)
    assert pair.standing()[topic].by.who == "ben@ops"

    closed = replace(pair.link, geo=False)
    with RunningDaemon(monkeypatch, closed) as run:
        run.await_role(Role.LEADING)
        done = topics.add_topics(pair.link, [topic], wait_s=PATIENCE_S)
        assert f"set {closed.name}.causeway.geo = true" in str(done.refused)
        assert not run.partitions()
    there = replace(pair.link.target, bootstrap=pair.link.source.bootstrap)
    itself = replace(pair.link, target=there, target_admin=there)
    with pytest.raises(ConfigError, match="it is the origin"):
        destinations.add_destination(itself)


@pytest.mark.slow
def test_the_page_of_a_run_is_where_topics_are_chosen(
    pair: Pair, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a real browser, beside a run between real clusters: what is clicked there is done, with
    who and why; what others do is seen; what cannot be done says why."""
    one, other, to = prefix + "one", prefix + "other", f"{pair.origin}d"
    for topic in (one, other):
        pair.source.create_topic(topic, 2)
        pair.fill(topic, 100)
    destinations.add_destination(pair.link)
    all_settings = Settings(
        links=(pair.link,), run=RunSettings(http=HttpSettings(port=0)), spark={}
    )
    with (
        chromium() as browser,
        served(all_settings) as serving,
        RunningDaemon(monkeypatch, pair.link, on_status=serving.take) as run,
    ):
        run.await_role(Role.LEADING)
        seen = Watched(browser, str(serving.address))
        page = seen.page
        page.set_default_timeout(1000 * PATIENCE_S)
        seen.open()
        page.get_by_role("link", name="Geo", exact=True).click()
        card = page.get_by_role("region", name=f"Add to {to}")
        rows = page.get_by_role("row")

        def add(topic: str) -> None:
            card.get_by_label(f"Topic of {pair.origin}").fill(topic)
            card.get_by_role("button", name=f"Copy to {to}").click()

        def act(action: str, topic: str) -> None:
            page.get_by_role("button", name=f"{action} topic {topic}", exact=True).click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_role("button", name=action, exact=True).click()
            dialog.wait_for(state="detached")

        card.get_by_label("Your name").fill("anna")
        add(one + "x")
        card.get_by_text(f"like it: {one}").wait_for()
        card.get_by_label("Reason").fill("Lyon")
        add(one)
        card.get_by_text(f"{one} is copied to {to}.").wait_for()
        pair.await_same(one)
        by = pair.standing()[one].by
        assert (by.who.partition("@")[0], by.why) == ("anna", "Lyon")
        row = rows.filter(has_text=f"{pair.origin}.{one} on {to}")
        row.get_by_text("running", exact=True).wait_for()

        topics.add_topics(pair.link, [other], who="ben@ops", wait_s=PATIENCE_S)
        rows.filter(has_text=other).get_by_text("ben@ops").wait_for()
        act("pause", one)
        run.await_state(one, State.PAUSED, 2)
        pair.fill(one, 50, first=100)
        row.get_by_text("paused", exact=True).wait_for()
        row.get_by_text("50", exact=True).wait_for()
        assert pair.arrived(one) == 100
        act("resume", one)
        pair.await_same(one)

        act("remove", one)
        row.wait_for(state="detached")
        assert pair.standing().keys() == {other}
        pair.fill(one, 50, first=150)
        pair.fill(other, 50, first=100)
        pair.await_same(other)
        assert pair.arrived(one) == 150, "it stays, and nothing comes"
        # A browser says of its own accord that something was refused.
        assert [each for each in seen.complaints if "status of 400" not in each] == []
    assert run.result == 0


def in_process(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """A command, without the start of a process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return Ended(code=int(ended.value.code or 0), out=out, err=err)


@pytest.mark.slow
def test_the_whole_way_by_commands(
    pair: Pair,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From nothing: `geo run` waits for a destination, copies what is chosen, is killed, and goes
    on where it was; it ends what a removed destination had, and leaves the topic."""
    topic, origin, to = prefix + "orders", pair.origin, f"{pair.origin}d"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    pair.source.create_topic(topic, 2)
    pair.fill(topic, 100)
    more = tmp_path / "run.properties"
    more.write_text("causeway.http.port = -1\nspark.master = local[2]\n")

    def geo(*arguments: str, code: int = 0) -> Ended:
        done = in_process(capsys, "geo", *arguments)
        assert done.code == code, done.err
        return done

    def run() -> Running:
        return Running("geo", "run", "--properties", more, directory=tmp_path)

    geo("destination", "list", code=2)
    geo("--origin", f"{origin}={source_cluster.bootstrap}")
    with run() as first:
        first.await_log("no destination yet")
        geo("destination", "add", to, "--bootstrap", target_cluster.bootstrap)
        first.await_log('event="lead link"')
        assert f"like it: {topic}" in geo("topics", "add", to, topic + "x", code=2).err
        wait = ("--timeout", str(PATIENCE_S))
        done = geo("topics", "add", to, topic, *wait, "--json").json
        assert (done["acted"], done["topics"][0]["changed"]) == (True, True)
        pair.await_same(topic)
        (found,) = geo("status", "--json").json["destinations"]
        assert found["topics"][0]["target_topic"] == f"{origin}.{topic}"
        first.kill()
    pair.fill(topic, 100, first=100)
    assert "recorded" in geo("topics", "remove", to, topic, "--no-wait").out
    geo("topics", "add", to, topic, "--no-wait")
    with run() as second:
        pair.await_same(topic)
        file = tmp_path / "geo.properties"
        file.write_text(geo("properties").out)
        status = ("status", str(file), "--check")
        await_until(lambda: in_process(capsys, *status).code == 0, PATIENCE_S, "all is well")
        assert topic in in_process(capsys, *status).out
        assert "topics are copied there" in geo("destination", "remove", to, code=2).err
        geo("destination", "remove", to, "--yes", *wait)
        second.await_log("no destination yet")
        assert second.stop() == 0
    pair.await_same(topic)
