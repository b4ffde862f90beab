"""Kafka Connect's paths: names, forms and states as scripts for MirrorMaker 2 expect them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from causeway.link_topics import TaskRecord
from causeway.model import State
from causeway.status import Role
from tests.builders.served import PASSWORD, client
from tests.builders.status import full, link, partition
from tests.harness.statuses import replace

SOURCE = "A->B.MirrorSourceConnector"
CHECKPOINT = "A->B.MirrorCheckpointConnector"
HEARTBEAT = "A->B.MirrorHeartbeatConnector"
WORKER = "127.0.0.1:8490"


@pytest.fixture
def connect() -> Iterator[TestClient]:
    beats = replace(link(), tasks=(*link().tasks, TaskRecord(name="heartbeats", reason="refused")))
    with client(lambda: full(beats)) as found:
        yield found


def test_the_server(connect: TestClient) -> None:
    assert set(connect.get("/").json()) == {"version", "commit", "kafka_cluster_id"}
    assert connect.get("/", headers={"accept": "text/html,*/*"}).status_code == 307
    (source, _, _) = connect.get("/connector-plugins").json()
    assert source["class"] == "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def test_each_link_is_three_connectors(connect: TestClient) -> None:
    assert connect.get("/connectors").json() == [SOURCE, CHECKPOINT, HEARTBEAT]
    expanded = connect.get("/connectors?expand=status&expand=info").json()
    assert expanded[SOURCE] == {
        "status": connect.get(f"/connectors/{SOURCE}/status").json(),
        "info": connect.get("/connectors/A-%3EB.MirrorSourceConnector").json(),
    }
    assert set(connect.get("/connectors?expand=status").json()[SOURCE]) == {"status"}


def test_a_connector(connect: TestClient) -> None:
    found = connect.get(f"/connectors/{SOURCE}").json()
    assert found["name"] == SOURCE
    assert found["type"] == "source"
    assert found["tasks"] == [{"connector": SOURCE, "task": 0}]
    assert found["config"] == connect.get(f"/connectors/{SOURCE}/config").json()
    assert connect.get(f"/connectors/{SOURCE}/tasks").json() == [
        {"id": {"connector": SOURCE, "task": 0}, "config": found["config"]}
    ]


def test_the_config_is_the_files_without_logins(connect: TestClient) -> None:
    config = connect.get(f"/connectors/{SOURCE}/config").json()
    wanted = {
        "name": SOURCE,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a.example:9092,a2.example:9092",
        "source.cluster.security.protocol": "SASL_SSL",
        "topics": "orders.*,payments",
        "topics.exclude": "__.*",
        "replication.factor": "2",
        "sync.topic.configs.enabled": "true",
        "refresh.topics.interval.seconds": "600",
    }
    assert wanted.items() <= config.items()
    assert all(isinstance(value, str) for value in config.values())
    assert connect.get(f"/connectors/{CHECKPOINT}/config").json()["groups"] == ".*"
    for name in (SOURCE, CHECKPOINT, HEARTBEAT):
        assert PASSWORD not in connect.get(f"/connectors/{name}/config").text


def test_states(connect: TestClient) -> None:
    assert connect.get(f"/connectors/{SOURCE}/status").json() == {
        "name": SOURCE,
        "connector": {"state": "RUNNING", "worker_id": WORKER},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": WORKER}],
        "type": "source",
    }
    (task,) = connect.get(f"/connectors/{HEARTBEAT}/status").json()["tasks"]
    assert task == {"id": 0, "state": "FAILED", "worker_id": WORKER, "trace": "refused"}
    assert connect.get(f"/connectors/{HEARTBEAT}/tasks/0/status").json() == task
    (task,) = connect.get(f"/connectors/{CHECKPOINT}/status").json()["tasks"]
    assert task["state"] == "RUNNING"


@pytest.mark.parametrize(
    ("role", "state"),
    [
        (Role.STARTING, "UNASSIGNED"),
        (Role.STANDBY, "UNASSIGNED"),
        (Role.FAILED, "FAILED"),
        (Role.ENDED, "STOPPED"),
    ],
)
def test_a_link_that_is_not_led_here(role: Role, state: str) -> None:
    with client(lambda: full(replace(link(), role=role, reason="led by x"))) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
    assert found["connector"]["state"] == state
    assert found["tasks"] == []
    assert found["connector"].get("trace") == ("led by x" if role is Role.FAILED else None)


def test_a_link_of_which_all_is_paused() -> None:
    paused = link(partition(0, State.PAUSED), partition(1, State.PAUSED))
    with client(lambda: full(paused)) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
        assert found["connector"]["state"] == "PAUSED"
        assert [task["state"] for task in found["tasks"]] == ["PAUSED"]
        other = connect.get(f"/connectors/{CHECKPOINT}/status").json()
        assert other["connector"]["state"] == "RUNNING"
    with client(lambda: full(link(partition(0, State.PAUSED), partition(1)))) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
        assert found["connector"]["state"] == "RUNNING"


def test_a_link_of_which_nothing_is_mirrored() -> None:
    stopped = replace(partition(0, State.STOPPED), reason="truncated \udcff")
    with client(lambda: full(link(stopped, partition(1, State.FAILED)))) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
        assert found["connector"]["state"] == "RUNNING"
        (task,) = found["tasks"]
        assert (task["state"], task["trace"]) == ("FAILED", "orders-0: truncated ?")
        other = connect.get(f"/connectors/{CHECKPOINT}/status").json()
        assert [task["state"] for task in other["tasks"]] == ["RUNNING"]
    with client(lambda: full(link(stopped, partition(1)))) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
        assert [task["state"] for task in found["tasks"]] == ["RUNNING"]
    with client(lambda: full(link(partition(0, State.PROMOTED)))) as connect:
        found = connect.get(f"/connectors/{SOURCE}/status").json()
        assert found["connector"]["state"] == "STOPPED"


def test_topics_and_offsets() -> None:
    """Offsets are MirrorMaker 2's: the last one that is copied, not the next."""
    new = replace(partition(1), mirrored_to=None)
    with client(lambda: full(link(partition(0), new))) as connect:
        assert connect.get(f"/connectors/{SOURCE}/topics").json() == {
            SOURCE: {"topics": ["A.orders"]}
        }
        assert connect.get(f"/connectors/{CHECKPOINT}/topics").json() == {
            CHECKPOINT: {"topics": ["A.checkpoints.internal"]}
        }
        assert connect.get(f"/connectors/{SOURCE}/offsets").json() == {
            "offsets": [
                {
                    "partition": {"cluster": "A", "partition": 0, "topic": "orders"},
                    "offset": {"offset": 89},
                }
            ]
        }
        assert connect.get(f"/connectors/{HEARTBEAT}/offsets").json() == {"offsets": []}


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/connectors/none", 404, "Connector none not found"),
        ("GET", "/connectors/none/status", 404, "Connector none not found"),
        ("GET", f"/connectors/{SOURCE}/tasks/7/status", 404, "No status found for task"),
        ("POST", f"/connectors/{SOURCE}/tasks/7/restart", 404, "Unknown task"),
        ("GET", "/nothing", 404, "HTTP 404 Not Found"),
        ("POST", "/connectors", 405, "connectors are the flows of the file"),
        ("DELETE", f"/connectors/{SOURCE}", 405, "connectors are the flows of the file"),
        ("PUT", f"/connectors/{SOURCE}/config", 405, "connectors are the flows of the file"),
        ("PATCH", f"/connectors/{SOURCE}/offsets", 405, "offsets cannot be set"),
        ("DELETE", f"/connectors/{SOURCE}/offsets", 405, "offsets cannot be set"),
        ("DELETE", "/connectors/none", 404, "Connector none not found"),
    ],
)
def test_errors_have_connects_form(
    connect: TestClient, method: str, path: str, status: int, message: str
) -> None:
    answer = connect.request(method, path)
    assert answer.status_code == status
    found = answer.json()
    assert set(found) == {"error_code", "message"}
    assert found["error_code"] == status
    assert message in found["message"]
