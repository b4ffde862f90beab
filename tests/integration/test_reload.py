"""A running driver puts a changed file in force, as a whole or not at all. Real processes, real
brokers; nothing is lost or doubled."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.reloads import PARTITIONS, ChangingFile
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, status_of
from tests.harness.secured import ADMIN, SecuredCluster
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


@pytest.mark.timeout(900)
def test_topics_come_and_go(changing: ChangingFile, tmp_path: Path) -> None:
    """A topic is added by SIGHUP, excluded, and added again, while transactions go on in another
    one, whose lanes are the same all the time. A file with a mistake changes nothing, nor does one
    that needs a restart; status and exit codes say why."""
    steady, added = changing.steady, changing.other
    changing.produce(added, "first")
    file = changing.write(f"A->B.topics = {steady}")
    sound = tmp_path / "sound.properties"
    sound.write_text(file.read_text())
    assert "no driver" in causeway("reload", file).err
    with (
        changing.running() as run,
        writing(changing.source, steady, PARTITIONS, seed=SEED) as writer,
    ):
        changing.await_copied(steady)
        lanes = {each.pid for each in run.workers()}
        changing.change((f"topics = {steady}", f"topics = {steady}, {added}"))
        os.kill(run.pid, signal.SIGHUP)
        changing.await_copied(added)
        assert "unchanged" in changing.reload()

        shown = changing.put((f", {added}", ""))
        assert "applied" in shown
        assert f"A->B.topics: {steady},{added} → {steady}" in shown
        run.await_log("take up again")
        changing.produce(added, "meanwhile")

        changing.change((f"topics = {steady}", f"topics = {steady}, {added}, ("))
        assert "A->B.topics" in changing.reload(2)
        await_until(
            lambda: "A->B.topics" in why(sound), PATIENCE_S, "the status says what is wrong"
        )
        changing.change((f", {added}, (", ""), ("A->B.enabled", "causeway.lanes = 1\nA->B.enabled"))
        assert "Spark's cores" in changing.reload(12)
        await_until(
            lambda: "causeway.lanes" in why(sound), PATIENCE_S, "the status says what waits"
        )
        changing.await_copied(steady)
        assert sum(changing.target.offsets(f"A.{added}").values()) == 60

        changing.put(("causeway.lanes = 1\n", ""), (steady, f"{steady}, {added}"))
        changing.await_copied(added)
        await_until(lambda: why(sound) == "", PATIENCE_S, "nothing is wrong any more")
        writer.end()
        changing.await_copied(steady)
        assert lanes <= {each.pid for each in run.workers()}
        assert run.stop() == 0
    changing.assert_same(steady)
    changing.assert_same(added)


def why(file: Path) -> str:
    """Why the changed file is not in force, by the status of the clusters. `file`: a sound one."""
    tasks = status_of(file)["A->B"]["tasks"]
    return next((each["reason"] or "" for each in tasks if each["task"] == "file"), "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_flows_come_and_go_and_a_throttle_changes(
    changing: ChangingFile, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Another flow, from a cluster that is new in the file, is added, throttled, removed, and added
    again, while transactions go on in the first one. What came while it was away follows."""
    steady, other = changing.steady, changing.other
    changing.produce(other, "first")
    file = changing.write(f"A->B.topics = {steady}")
    flow = f"X->B.enabled = true\nX->B.topics = {other}\n"
    mirror = f"X.{other}"
    with (
        changing.running() as run,
        writing(changing.source, steady, PARTITIONS, seed=SEED) as writer,
    ):
        changing.await_copied(steady)
        first = f"clusters = A, B, X\nX.bootstrap.servers = localhost:1\n{flow}"
        changing.change(("clusters = A, B", first))
        assert "localhost:1" in changing.reload(3)
        changing.put(("localhost:1", source_cluster.bootstrap))
        changing.await_copied(other, mirror)

        limit = "X->B.causeway.throttle.bytes.per.second = 1000\n"
        assert "throttle" in changing.put((flow, f"{flow}{limit}"))
        changing.source.produce(other, [Outgoing(value=os.urandom(2_000)) for _ in range(20)])
        changing.put((limit, ""))
        changing.await_copied(other, mirror)

        here, there = (
            f"X.bootstrap.servers = {each.bootstrap}" for each in (source_cluster, target_cluster)
        )
        changing.change((here, there))
        assert "lead to cluster" in changing.reload(2)
        changing.put((there, here), ("X->B.enabled = true", "X->B.enabled = false"))
        assert status_of(file).keys() == {"A->B"}
        changing.produce(other, "while it is away")
        changing.await_copied(steady)
        changing.put(("X->B.enabled = false", "X->B.enabled = true"))
        changing.await_copied(other, mirror)
        writer.end()
        changing.await_copied(steady)
        assert run.stop() == 0
    changing.assert_same(steady)
    changing.assert_same(other, mirror)


@pytest.mark.timeout(900)
def test_a_config_map_is_swapped_by_its_symbolic_link(
    changing: ChangingFile, tmp_path: Path
) -> None:
    """As Kubernetes does it: `mm2.properties` leads to `..data/mm2.properties`, and `..data` to
    another directory from one moment to the next. The topics are in a Secret besides the file."""
    one, other = changing.steady, changing.other
    changing.produce(one, "first")
    changing.produce(other, "first")
    plain = changing.write(
        "causeway.reload = on-change", f"A->B.topics = ${{dir:{tmp_path / 'secret'}:topics}}"
    )
    swap(tmp_path / "map", "mm2.properties", plain.read_text())
    swap(tmp_path / "secret", "topics", one)
    with Running("run", tmp_path / "map" / "mm2.properties", directory=tmp_path) as run:
        changing.await_copied(one)
        swap(tmp_path / "secret", "topics", f"{one}, {other}")
        changing.await_copied(other)
        swap(tmp_path / "map", "mm2.properties", plain.read_text() + "no.such.transform = (\n")
        changing.change(("A->B.topics", "A->B.topics.exclude = .*other\nA->B.topics"))
        swap(tmp_path / "map", "mm2.properties", plain.read_text())
        run.await_log("take up again")
        assert run.stop() == 0
    changing.assert_same(one)
    changing.assert_same(other)


def swap(directory: Path, name: str, text: str) -> None:
    """Gives the mounted `directory` its next content, whose file `name` has this text."""
    directory.mkdir(exist_ok=True)
    version = directory / f"..{time.time_ns()}"
    version.mkdir()
    (version / name).write_text(text)
    link = directory / "..data.new"
    link.symlink_to(version.name)
    link.replace(directory / "..data")
    if not (directory / name).is_symlink():
        (directory / name).symlink_to(Path("..data", name))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_driver_that_is_killed_amid_reloads_loses_and_doubles_nothing(
    changing: ChangingFile,
) -> None:
    """The file changes again and again: a topic comes and goes. The driver is killed at random
    moments right after a change, and started again."""
    chance = random.Random(SEED)
    source, steady, moving = changing.source, changing.steady, changing.other
    changing.write(
        "causeway.reload = on-change",
        "causeway.lease.ms = 3000",
        f"A->B.topics = {steady}, {moving}",
    )
    with_it, without_it = f"topics = {steady}, {moving}", f"topics = {steady}\n"
    with (
        writing(source, steady, PARTITIONS, seed=SEED) as writer,
        writing(source, moving, PARTITIONS, seed=SEED + 1) as other,
    ):
        for _ in range(4):
            for pair in ((with_it, without_it), (without_it, with_it)):
                with changing.running() as run:
                    changing.await_copied(steady)
                    changing.change(pair)
                    time.sleep(chance.uniform(0, 3))  # the moment is the test
                    run.kill()
        with changing.running() as run:
            writer.end()
            other.end()
            changing.await_copied(steady)
            changing.await_copied(moving)
            assert run.stop() == 0
    changing.assert_same(steady)
    changing.assert_same(moving)


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path / "certificates") as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_changed_password_is_used_and_a_wrong_one_refused(
    changing: ChangingFile, secured: SecuredCluster
) -> None:
    """The cluster gets another SCRAM password. A file with a wrong one changes nothing; one with
    the right one works for new connections, as after a restart of the broker. Another flow has
    the same target."""
    inside, topic = KafkaTools(secured.bootstrap), changing.other
    inside.create_topic(topic, PARTITIONS)
    secured.set_password(ADMIN, "first-word")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    changing.clusters["S"] = f"localhost:{secured.port('SASL')}"
    changing.write(
        f"A->B.topics = {changing.steady}",
        "S.security.protocol = SASL_PLAINTEXT",
        "S.sasl.mechanism = SCRAM-SHA-512",
        f'S.sasl.jaas.config = {module} username="{ADMIN}" password="first-word";',
        "S->B.enabled = true",
        f"S->B.topics = {topic}",
    )

    def await_mirrored(text: str) -> None:
        inside.produce(topic, [b"%s %d" % (text.encode(), n) for n in range(60)])
        await_copied(inside, topic, changing.target, f"S.{topic}")

    with changing.running() as run:
        await_mirrored("first")
        secured.set_password(ADMIN, "second-word")
        changing.change(("first-word", "wrong-word"))
        assert "wrong-word" not in changing.reload(4)
        await_mirrored("with the earlier connections")

        changing.put(("wrong-word", "second-word"))  # or the driver has noticed it before
        secured.restart()
        await_mirrored("with new connections")
        assert run.stop() == 0
    assert_same(inside, topic, changing.target, f"S.{topic}")
    assert not any(word in run.log for word in ("first-word", "wrong-word", "second-word"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_drivers_of_a_file_take_it_over_and_a_difference_is_reported(
    changing: ChangingFile,
) -> None:
    """One `causeway reload` reaches the leading driver and the standby of a file. A standby with
    another file says so; after a take-over its file counts."""
    one, other = changing.steady, changing.other
    changing.produce(one, "first")
    changing.produce(other, "first")
    changing.write("causeway.lease.ms = 4000", f"A->B.topics = {one}")
    with changing.running() as leads:
        changing.await_copied(one)
        with changing.running() as waits:
            await_until(lambda: "lanes ready" in waits.log, PATIENCE_S, "the standby is there")
            shown = changing.put((f"topics = {one}", f"topics = {one}, {other}"))
            assert f"driver {leads.pid}" in shown
            assert f"driver {waits.pid}" in shown
            changing.await_copied(other)

            changing.change(("A->B.enabled", "A->B.topics.exclude = .*nothing\nA->B.enabled"))
            os.kill(waits.pid, signal.SIGHUP)
            waits.await_log("the leading driver has another file")
            leads.kill()
            changing.produce(other, "after the take-over")
            changing.await_copied(other)
            assert waits.stop() == 0
    changing.assert_same(one)
    changing.assert_same(other)
