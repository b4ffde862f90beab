"""Stages whose processes die for reasons of their own. Each test takes minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, mm2_file, status_of
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

DEADLY = """
import os
import signal

from pyspark.sql import functions as sf


def native(records):
    @sf.udf("string")
    def upper(value):
        if "poison" in value:
            os.kill(os.getpid(), signal.SIGSEGV)
        return value.upper()

    return records.select(upper("value").alias("value"))
"""


def test_a_record_on_which_a_process_dies_stops_its_partition_and_is_no_dead_letter(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """As where a function in native code crashes: nobody knows that it is the record's doing, so it
    is tried again for some minutes, and told of meanwhile."""
    topic = prefix + "deadly"
    source.create_topic(topic, 2)
    values = [b"v%d" % number for number in range(60)]
    for partition in (0, 1):
        poisoned = [*values[:40], b"poison me", *values[40:]] if partition else values
        source.produce(topic, [Outgoing(value=value, partition=partition) for value in poisoned])
    (tmp_path / "theirs.py").write_text(DEADLY)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = native",
        f"A->B.causeway.transform.native.topics = {topic}",
        "A->B.causeway.transform.native.value.format = string",
        "A->B.causeway.transform.native.python = theirs:native",
        "A->B.causeway.transform.native.on.error = dead-letter",
        f"A->B.causeway.transform.native.dead.letter.topic = {prefix}refused",
    )
    with Running("run", file, directory=tmp_path, environment={"PYTHONPATH": str(tmp_path)}) as run:
        await_until(lambda: "a Python worker ended" in str(status_of(file)), 120, "it is told of")

        def stopped() -> str:
            found = status_of(file)["A->B"]["partitions"]
            return next((p["reason"] for p in found if p["state"] == "stopped"), "")

        reason = await_until(stopped, 600, "the poisoned partition stops", poll_s=1.0)
        assert f"the record at offset 40 of {topic}-1: the processes of the" in reason
        await_until(lambda: target.offsets(f"A.{topic}") == {0: 60, 1: 40}, 240, "all others")
        assert run.stop() == 0, run.log
    assert "poison" not in run.log
    assert source.partition_count(f"{prefix}refused") is None


UNFIT = """
import sys

from pyspark.sql import functions as sf

if any("worker_daemon" in word for word in sys.orig_argv):
    raise ImportError("there is no such library here")


def upper(value):
    return value.upper()


def loud(records):
    return records.select(sf.udf(upper, "string")("value").alias("value"))
"""


def test_a_bounded_run_whose_stage_never_works_ends_with_the_reason(
    source: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    topic = prefix + "never"
    source.create_topic(topic)
    source.produce(topic, [b"one"])
    (tmp_path / "unfit.py").write_text(UNFIT)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = unfit",
        f"A->B.causeway.transform.unfit.topics = {topic}",
        "A->B.causeway.transform.unfit.value.format = string",
        "A->B.causeway.transform.unfit.python = unfit:loud",
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    ended = causeway(
        "run", file, "--until-caught-up", environment=environment, timeout_s=2 * PATIENCE_S
    )
    assert ended.code == 7, ended.err
    assert f"{topic}-0 failed: its stage ends again and again" in ended.err
    assert "ImportError" in ended.err


def test_a_record_that_takes_for_ever_is_a_dead_letter_and_other_partitions_go_on(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """A regular expression that backtracks without end, which nothing but the end of its thread
    interrupts."""
    topic, letters = prefix + "slow", f"{prefix}refused"
    source.create_topic(topic, 2)
    values = [b"v%d" % number for number in range(600)]
    endless = b"a" * 60 + b"!"
    source.produce(
        topic,
        [Outgoing(value=v, partition=0) for v in (*values[:400], endless, *values[400:])],
    )
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {topic}",
        "A->B.causeway.transforms = odd",
        f"A->B.causeway.transform.odd.topics = {topic}",
        "A->B.causeway.transform.odd.value.format = string",
        "A->B.causeway.transform.odd.sql = SELECT * FROM records WHERE NOT value RLIKE "
        "'(.*a){12}b'",
        "A->B.causeway.transform.odd.on.error = dead-letter",
        f"A->B.causeway.transform.odd.dead.letter.topic = {letters}",
    )

    def mirrored(partition: int) -> int:
        if target.partition_count(f"A.{topic}") is None:
            return 0
        return target.offsets(f"A.{topic}")[partition]

    def waits() -> bool:
        found = status_of(file)["A->B"]["partitions"]
        reason = next((p["reason"] or "" for p in found if p["partition"] == 0), "")
        return reason.startswith("waiting for its transform since 20")

    with Running("run", file, directory=tmp_path) as run:
        await_until(waits, 120, "it is told of")
        for number in range(1, 6):
            assert source.partition_count(letters) is None, "while the record is looked for"
            source.produce(topic, [Outgoing(value=b"other", partition=1)])
            await_until(lambda n=number: mirrored(1) >= n, 45, "a record of another partition")  # type: ignore[misc]
        await_until(lambda: source.partition_count(letters) is not None, 240, "the dead letter")
        await_until(lambda: mirrored(0) == 600, 120, "all others")
        assert run.stop() == 0, run.log
    assert [record.value for record in target.read(f"A.{topic}")[0]] == values
    (letter,) = source.read(letters)[0]
    headers = dict(letter.headers)
    assert letter.value == endless
    assert headers["causeway.offset"] == b"400"
    assert headers["causeway.reason"] == b"the transform gives no answer to it in 30 s"
