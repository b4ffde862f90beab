"""Avro through a transform whose registry comes and goes, while driver, JVM and workers are killed,
and while new versions of the schema are written.

A worker that is started anew knows no schema, so each kill has it ask. What arrives must be exact:
each record once, in order, masked, with the id that it had.
CAUSEWAY_FIRE_SECONDS lengthens the fire, CAUSEWAY_FIRE_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.harness.customers import PEPPER, Customers
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.proxy import Proxy
from tests.harness.running import PATIENCE_S, Running, mm2_file
from tests.harness.schema_registry import RegistryServer
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

FIRE_S = float(os.environ.get("CAUSEWAY_FIRE_SECONDS", "60"))
SEED = int(os.environ.get("CAUSEWAY_FIRE_SEED", str(time.time_ns() % 1_000_000)))
ACTS = ("worker", "worker", "jvm", "driver", "stop", "evolve", "evolve")
STOP_S = 60.0  # for an orderly end, also of workers that wait for their registry


@pytest.mark.timeout(1200 + FIRE_S)
def test_exact_whatever_the_registry_does_and_whatever_is_killed(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    schema_registry: RegistryServer,
    prefix: str,
    tmp_path: Path,
) -> None:
    customers, way = Customers(schema_registry, prefix), Proxy(schema_registry.port)
    topic, mirror = customers.avro, f"A.{customers.avro}"
    source.create_topic(topic, 2)
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {topic}",
        "causeway.lease.ms = 3000",
        "A->B.causeway.transforms = pii",
        f"A->B.causeway.transform.pii.topics = {topic}",
        "A->B.causeway.transform.pii.value.format = avro",
        "A->B.causeway.transform.pii.registry.url = "
        f"http://127.0.0.1:{way.address[1]}{schema_registry.path}",
        "A->B.causeway.transform.pii.rules = mask value.$.mail keep domain;"
        " hash value.$.card with pepper",
        f"A->B.causeway.transform.pii.secret.pepper = {PEPPER}",
    )
    chance = random.Random(SEED)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    done: list[str] = []
    pause = threading.Event()

    def send() -> None:
        records = []
        for number in range(40):
            version = chance.randrange(len(customers.avro_ids))
            value = customers.by_avro(len(sent[0]) + number, version)
            sent[number % 2].append(value)
            records.append(Outgoing(value=value, partition=number % 2))
        source.produce(topic, records)

    def arrived() -> bool:
        if target.partition_count(mirror) is None:
            return False
        return target.offsets(mirror) == {p: len(values) for p, values in sent.items()}

    run = Running("run", file, directory=tmp_path)
    try:
        send()
        await_until(arrived, PATIENCE_S, "the first records")
        until = time.monotonic() + FIRE_S
        while time.monotonic() < until:
            down = chance.random() < 0.6
            way.refuse(down)
            act = chance.choice([act for act in ACTS if act not in done[-1:]])
            done.append(f"{act} (down)" if down else act)
            if act == "evolve":
                customers.evolve({"name": f"more{len(done)}", "type": "string", "default": ""})
            send()
            if act == "worker":
                _kill(chance.choice(await_until(run.workers, 120, "workers")))
            elif act == "jvm":
                for process in run.processes():
                    if process.name() == "java":
                        _kill(process)
            elif act in ("driver", "stop"):
                if act == "driver":
                    run.kill_driver()
                else:
                    began = time.monotonic()
                    assert run.stop() in (0, -signal.SIGTERM), run.log
                    assert time.monotonic() - began < STOP_S
                run = Running("run", file, directory=tmp_path)
            send()
            pause.wait(chance.uniform(1, 6))
        way.refuse(False)
        await_until(arrived, PATIENCE_S, "all records")
        assert run.stop() == 0, run.log
    except AssertionError as error:
        run.add_note(error)
        raise
    finally:
        run.kill()
        way.close()
        print(f"seed {SEED}: {', '.join(done)}; {sum(map(len, sent.values()))} records")

    wanted = {p: list(map(customers.masked_avro, values)) for p, values in sent.items()}
    for read_committed in (False, True):
        found = target.read(mirror, read_committed=read_committed)
        assert {p: [one.value for one in records] for p, records in found.items()} == wanted


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        pass
