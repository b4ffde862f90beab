"""Local clusters hold what they promise: data outlives kills, and `dev` finds them again."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException

from tests.harness.command import causeway
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.proxy import Proxies
from tests.harness.running import Running
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_three_brokers_survive_the_loss_of_each_in_turn() -> None:
    with LocalCluster("three", brokers=3) as cluster:
        tools = KafkaTools(cluster.bootstrap)
        tools.create_topic("records", 3)
        tools.produce("records", [b"before"])

        cluster.kill(2)
        tools.produce("records", [b"without 2"])
        cluster.restart(2)
        cluster.kill(1)
        tools.produce("records", [b"without 1"])

        values = {record.value for records in tools.read("records").values() for record in records}
        assert values == {b"before", b"without 2", b"without 1"}


def test_one_broker_behind_a_proxy_is_paused_cut_off_killed_and_restarted() -> None:
    proxies = Proxies()
    with LocalCluster("one", advertised=proxies) as cluster:
        assert cluster.bootstrap == f"127.0.0.1:{proxies[1].address[1]}"
        tools = KafkaTools(cluster.bootstrap)
        tools.create_topic("records")
        quick = {"message.timeout.ms": 700}
        cluster.pause()
        with pytest.raises(KafkaException):
            tools.produce("records", [b"lost"], settings=quick)
        cluster.resume()
        proxies[1].refuse()
        proxies[1].cut()
        with pytest.raises(KafkaException):
            tools.produce("records", [b"lost"], settings=quick)
        proxies[1].refuse(False)

        cluster.kill()
        cluster.restart()
        tools.produce("records", [b"kept"])

        assert tools.read("records")[0][-1].value == b"kept"
    proxies.close()


@pytest.mark.slow
def test_dev_up_and_down(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path)}

    def dev(*words: str) -> str:
        done = causeway("dev", *words, environment=environment)
        assert done.code == 0, done.err
        return done.out

    def status() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(dev("status", "--json"))
        return found

    try:
        assert "causeway run" in dev("up", "--clusters", "2")
        clusters = {cluster["name"]: cluster for cluster in status()}
        assert all(cluster["brokers"][0]["serving"] for cluster in clusters.values())
        example = (tmp_path / "causeway/dev/A-to-B.properties").read_text()
        assert f"A.bootstrap.servers = {clusters['A']['bootstrap']}" in example
        tools = KafkaTools(clusters["B"]["bootstrap"])
        tools.create_topic("records")

        os.kill(clusters["B"]["brokers"][0]["pid"], signal.SIGKILL)
        await_until(lambda: status()[1]["brokers"][0]["pid"] is None)
        dev("up")

        again = {cluster["name"]: cluster for cluster in status()}
        pids = {brokers["A"]["brokers"][0]["pid"] for brokers in (clusters, again)}
        assert len(pids) == 1
        assert again["A"]["bootstrap"] == clusters["A"]["bootstrap"]
        assert again["B"]["bootstrap"] == clusters["B"]["bootstrap"]
        assert "records" in tools.topics()
        refused = causeway("dev", "up", "--brokers", "3", environment=environment)
        assert refused.code == 2
        assert "it is there already, with 1" in refused.err
        a_stream_ends_by_ctrl_c(clusters["A"]["bootstrap"], environment, tmp_path / "load.log")
    finally:
        dev("down")
    assert status() == []


def a_stream_ends_by_ctrl_c(bootstrap: str, environment: dict[str, str], log: Path) -> None:
    words = ("dev", "load", "events", "--rate", "300", "--transactions", "1000000")
    with Running(*words, directory=log.parent, environment=environment) as load:
        tools = KafkaTools(bootstrap)
        await_until(lambda: bool(tools.partition_count("events")))
        await_until(lambda: any(tools.offsets("events").values()))
        psutil.Process(load.pid).send_signal(signal.SIGINT)
        assert load.wait() == 0, load.log
        (said,) = re.findall(r"([\d,]+) records? .*1 transaction written", load.log)
    tools.await_transactions("events")
    committed = tools.read("events", read_committed=True)
    assert int(said.replace(",", "")) == sum(map(len, committed.values()))
