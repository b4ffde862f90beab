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
from tests.harness.running import (
    PATIENCE_S,
    Running,
    assert_same,
    await_copied,
    mm2_file,
    status_of,
)
from tests.harness.secured import ADMIN, SecuredCluster
from tests.harness.waiting import await_until
from tests.harness.writers import writing

pytestmark = pytest.mark.integration
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))


def change(file: Path, *pairs: tuple[str, str]) -> None:
    """Replaces texts of the file in one step, as an editor that renames does."""
    text = file.read_text()
    for before, after in pairs:
        assert before in text, before
        text = text.replace(before, after)
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def reload(file: Path, code: int = 0) -> str:
    """`causeway reload FILE`, which must end with `code`. Returns what it printed."""
    ended = causeway("reload", file)
    assert ended.code == code, (ended.out, ended.err)
    return ended.out


def produce(tools: KafkaTools, topic: str, text: str, count: int = 60) -> None:
    tools.produce(topic, [Outgoing(value=b"%s %d" % (text.encode(), n)) for n in range(count)])


@pytest.mark.timeout(900)
def test_topics_come_and_go(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A topic is added by SIGHUP, excluded, and added again, while transactions go on in another
    one, whose lanes are the same all the time. A file with a mistake changes nothing, nor does one
    that needs a restart; status and exit codes say why."""
    steady, added = prefix + "steady", prefix + "added"
    source.create_topics([steady, added], 2)
    produce(source, added, "first")
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"A->B.topics = {steady}",
    )
    sound = tmp_path / "sound.properties"
    sound.write_text(file.read_text())
    assert "no driver" in causeway("reload", file).err
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=SEED) as writer,
    ):
        await_copied(source, steady, target, f"A.{steady}")
        lanes = {each.pid for each in run.workers()}
        change(file, (f"topics = {steady}", f"topics = {steady}, {added}"))
        os.kill(run.pid, signal.SIGHUP)
        await_copied(source, added, target, f"A.{added}")
        assert "unchanged" in reload(file)

        change(file, (f", {added}", ""))
        shown = reload(file)
        assert "applied" in shown
        assert f"A->B.topics: {steady},{added} → {steady}" in shown
        run.await_log("take up again")
        produce(source, added, "meanwhile")

        change(file, (f"topics = {steady}", f"topics = {steady}, {added}, ("))
        assert "A->B.topics" in reload(file, 2)
        await_until(
            lambda: "A->B.topics" in why(sound), PATIENCE_S, "the status says what is wrong"
        )
        change(file, (f", {added}, (", ""), ("A->B.enabled", "causeway.lanes = 1\nA->B.enabled"))
        assert "Spark's cores" in reload(file, 12)
        await_until(
            lambda: "causeway.lanes" in why(sound), PATIENCE_S, "the status says what waits"
        )
        await_copied(source, steady, target, f"A.{steady}")
        assert sum(target.offsets(f"A.{added}").values()) == 60

        change(file, ("causeway.lanes = 1\n", ""), (steady, f"{steady}, {added}"))
        reload(file)
        await_copied(source, added, target, f"A.{added}")
        await_until(lambda: why(sound) == "", PATIENCE_S, "nothing is wrong any more")
        writer.end()
        await_copied(source, steady, target, f"A.{steady}")
        assert lanes <= {each.pid for each in run.workers()}
        assert run.stop() == 0
    assert_same(source, steady, target, f"A.{steady}")
    assert_same(source, added, target, f"A.{added}")


def why(file: Path) -> str:
    """Why the changed file is not in force, by the status of the clusters. `file`: a sound one."""
    tasks = status_of(file)["A->B"]["tasks"]
    return next((each["reason"] or "" for each in tasks if each["task"] == "file"), "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_flows_come_and_go_and_a_throttle_changes(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Another flow, from a cluster that is new in the file, is added, throttled, removed, and added
    again, while transactions go on in the first one. What came while it was away follows."""
    steady, other = prefix + "steady", prefix + "other"
    source.create_topics([steady, other], 2)
    produce(source, other, "first")
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"A->B.topics = {steady}",
    )
    flow = f"X->B.enabled = true\nX->B.topics = {other}\n"
    with (
        Running("run", file, directory=tmp_path) as run,
        writing(source, steady, 2, seed=SEED) as writer,
    ):
        await_copied(source, steady, target, f"A.{steady}")
        first = (
            "clusters = A, B",
            f"clusters = A, B, X\nX.bootstrap.servers = localhost:1\n{flow}",
        )
        change(file, first)
        assert "localhost:1" in reload(file, 3)
        change(file, ("localhost:1", source_cluster.bootstrap))
        reload(file)
        await_copied(source, other, target, f"X.{other}")

        change(file, (flow, f"{flow}X->B.causeway.throttle.bytes.per.second = 1000\n"))
        assert "throttle" in reload(file)
        source.produce(other, [Outgoing(value=os.urandom(2_000)) for _ in range(20)])
        change(file, ("X->B.causeway.throttle.bytes.per.second = 1000\n", ""))
        reload(file)
        await_copied(source, other, target, f"X.{other}")

        elsewhere = (f"X.bootstrap.servers = {source_cluster.bootstrap}", "X.bootstrap.servers = ")
        change(file, (elsewhere[0], elsewhere[1] + target_cluster.bootstrap))
        assert "lead to cluster" in reload(file, 2)
        change(file, (elsewhere[1] + target_cluster.bootstrap, elsewhere[0]))
        change(file, ("X->B.enabled = true", "X->B.enabled = false"))
        reload(file)
        assert status_of(file).keys() == {"A->B"}
        produce(source, other, "while it is away")
        await_copied(source, steady, target, f"A.{steady}")
        change(file, ("X->B.enabled = false", "X->B.enabled = true"))
        reload(file)
        await_copied(source, other, target, f"X.{other}")
        writer.end()
        await_copied(source, steady, target, f"A.{steady}")
        assert run.stop() == 0
    assert_same(source, steady, target, f"A.{steady}")
    assert_same(source, other, target, f"X.{other}")


@pytest.mark.timeout(900)
def test_a_config_map_is_swapped_by_its_symbolic_link(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """As Kubernetes does it: `mm2.properties` leads to `..data/mm2.properties`, and `..data` to
    another directory from one moment to the next. The topics are in a Secret besides the file."""
    one, other = prefix + "one", prefix + "other"
    source.create_topics([one, other], 2)
    produce(source, one, "first")
    produce(source, other, "first")
    plain = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "causeway.reload = on-change",
        "A->B.enabled = true",
        f"A->B.topics = ${{dir:{tmp_path / 'secret'}:topics}}",
    )
    swap(tmp_path / "map", "mm2.properties", plain.read_text())
    swap(tmp_path / "secret", "topics", one)
    with Running("run", tmp_path / "map" / "mm2.properties", directory=tmp_path) as run:
        await_copied(source, one, target, f"A.{one}")
        swap(tmp_path / "secret", "topics", f"{one}, {other}")
        await_copied(source, other, target, f"A.{other}")
        swap(tmp_path / "map", "mm2.properties", plain.read_text() + "no.such.transform = (\n")
        change(plain, ("A->B.topics", "A->B.topics.exclude = .*other\nA->B.topics"))
        swap(tmp_path / "map", "mm2.properties", plain.read_text())
        run.await_log("take up again")
        assert run.stop() == 0
    assert_same(source, one, target, f"A.{one}")
    assert_same(source, other, target, f"A.{other}")


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
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The file changes again and again: a topic comes and goes. The driver is killed at random
    moments right after a change, and started again."""
    chance = random.Random(SEED)
    steady, moving = prefix + "steady", prefix + "moving"
    source.create_topics([steady, moving], 2)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "causeway.reload = on-change",
        "causeway.lease.ms = 3000",
        "A->B.enabled = true",
        f"A->B.topics = {steady}, {moving}",
    )
    with_it, without_it = f"topics = {steady}, {moving}", f"topics = {steady}\n"
    with (
        writing(source, steady, 2, seed=SEED) as writer,
        writing(source, moving, 2, seed=SEED + 1) as other,
    ):
        for _ in range(4):
            with Running("run", file, directory=tmp_path) as run:
                await_copied(source, steady, target, f"A.{steady}")
                change(file, (with_it, without_it))
                time.sleep(chance.uniform(0, 3))  # the moment is the test
                run.kill()
            with Running("run", file, directory=tmp_path) as run:
                await_copied(source, steady, target, f"A.{steady}")
                change(file, (without_it, with_it))
                time.sleep(chance.uniform(0, 3))
                run.kill()
        with Running("run", file, directory=tmp_path) as run:
            writer.end()
            other.end()
            await_copied(source, steady, target, f"A.{steady}")
            await_copied(source, moving, target, f"A.{moving}")
            assert run.stop() == 0
    assert_same(source, steady, target, f"A.{steady}")
    assert_same(source, moving, target, f"A.{moving}")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster("S", tmp_path / "certificates")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.destroy()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_changed_password_is_used_and_a_wrong_one_refused(
    secured: SecuredCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """The cluster gets another SCRAM password. A file with a wrong one changes nothing; one with
    the right one works for new connections, as after a restart of the
    broker."""
    inside, topic = KafkaTools(secured.bootstrap), prefix + "t"
    inside.create_topic(topic, 2)
    secured.set_password(ADMIN, "first-word")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    file = mm2_file(
        tmp_path,
        {"S": f"localhost:{secured.port('SASL')}", "B": target_cluster},
        "S.security.protocol = SASL_PLAINTEXT",
        "S.sasl.mechanism = SCRAM-SHA-512",
        f'S.sasl.jaas.config = {module} username="{ADMIN}" password="first-word";',
        "S->B.enabled = true",
        f"S->B.topics = {topic}",
    )
    with Running("run", file, directory=tmp_path) as run:
        produce(inside, topic, "first")
        await_copied(inside, topic, target, f"S.{topic}")
        secured.set_password(ADMIN, "second-word")
        change(file, ("first-word", "wrong-word"))
        assert "wrong-word" not in reload(file, 4)
        produce(inside, topic, "with the earlier connections")
        await_copied(inside, topic, target, f"S.{topic}")

        change(file, ("wrong-word", "second-word"))
        reload(file)  # unless the driver has noticed the new password before
        secured.restart()
        produce(inside, topic, "with new connections")
        await_copied(inside, topic, target, f"S.{topic}")
        assert run.stop() == 0
    assert_same(inside, topic, target, f"S.{topic}")
    assert not any(word in run.log for word in ("first-word", "wrong-word", "second-word"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_both_drivers_of_a_file_take_it_over_and_a_difference_is_reported(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """One `causeway reload` reaches the leading driver and the standby of a file. A standby with
    another file says so; after a take-over its file counts."""
    one, other = prefix + "one", prefix + "other"
    source.create_topics([one, other], 2)
    produce(source, one, "first")
    produce(source, other, "first")
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "causeway.lease.ms = 4000",
        "A->B.enabled = true",
        f"A->B.topics = {one}",
    )
    with Running("run", file, directory=tmp_path) as leads:
        await_copied(source, one, target, f"A.{one}")
        with Running("run", file, directory=tmp_path) as waits:
            await_until(lambda: "lanes ready" in waits.log, PATIENCE_S, "the standby is there")
            change(file, (f"topics = {one}", f"topics = {one}, {other}"))
            shown = reload(file)
            assert f"driver {leads.pid}" in shown
            assert f"driver {waits.pid}" in shown
            await_copied(source, other, target, f"A.{other}")

            change(file, ("A->B.enabled", "A->B.topics.exclude = .*nothing\nA->B.enabled"))
            os.kill(waits.pid, signal.SIGHUP)
            waits.await_log("the leading driver has another file")
            leads.kill()
            produce(source, other, "after the take-over")
            await_copied(source, other, target, f"A.{other}")
            assert waits.stop() == 0
    assert_same(source, one, target, f"A.{one}")
    assert_same(source, other, target, f"A.{other}")
