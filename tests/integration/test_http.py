"""What a real run answers over HTTP is what `causeway status` reads off the clusters, and what is
asked for there happens."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.harness.kafka.certificates import create_certificates
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import PATIENCE_S, Running, await_copied, mm2_file, status_of
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration

TOKEN = "a-token-of-this-test"
CONNECTOR = "/connectors/A-%3EB.MirrorSourceConnector"
# What both say of a partition in the same words.
SAME = ("topic", "partition", "target_topic", "state", "reason", "source_end", "mirrored_to",
        "high_watermark", "lag_records", "held_records", "lag_ms")  # fmt: skip


class Caller:
    """Knows the token, and whom to trust."""

    def __init__(self, port: int, trusted: Path) -> None:
        self.base = f"https://127.0.0.1:{port}"
        self._context = ssl.create_default_context(cafile=str(trusted))

    def __call__(
        self, path: str, method: str = "GET", body: Any = None, token: str | None = TOKEN
    ) -> Any:
        request = Request(f"{self.base}{path}", method=method)
        if token is not None:
            request.add_header("authorization", f"Bearer {token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        with urlopen(request, timeout=60, context=self._context) as answer:
            text = answer.read().decode()
            return json.loads(text) if "json" in answer.headers.get("content-type", "") else text

    def refused(self, path: str, **how: Any) -> tuple[int, str]:
        with pytest.raises(HTTPError) as caught:
            self(path, **how)
        with caught.value as error:
            found = json.loads(error.read())
        assert found["error_code"] == error.code
        return error.code, found["message"]

    def answers(self) -> bool:
        try:
            return bool(self("/readyz", token=None)["status"] == "ready")
        except (URLError, ConnectionError):
            return False

    def states(self, topic: str) -> set[str]:
        found = self(f"/api/v1/partitions?topic={topic}")["items"]
        return {each["state"] for each in found}


@pytest.mark.timeout(600)
def test_a_run_over_http(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    port: int,
) -> None:
    """Two partitions are mirrored: the API, Connect's paths and the metrics say so, to who has the
    token. Then the topic is paused over HTTP: what is written then waits, until it is resumed as a
    connector."""
    files = create_certificates(tmp_path / "certificates")
    topic = f"{prefix}t"
    source.create_topic(topic, 2)
    source.produce(topic, records(1_000))
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        f"causeway.http.port = {port}",
        f"causeway.http.tls.certificate = {files.broker}",
        f"causeway.http.tls.key = {files.broker}",
        f"causeway.http.token = {TOKEN}",
    )
    call = Caller(port, files.ca)

    with Running("run", file, directory=tmp_path) as run:
        run.await_log(f"address=https://127.0.0.1:{port}")
        await_copied(source, topic, target, f"A.{topic}")
        await_until(call.answers, PATIENCE_S, "it is ready")
        assert_same_as_status(call, file, topic)
        assert_connects(call, topic)
        assert_refusals(call)
        assert f'topic="{topic}"' in call("/metrics")

        path = f"/api/v1/links/A-%3EB/topics/{topic}"
        asked = call(f"{path}/pause", "POST", {"who": "anna", "reason": "by hand"})
        assert (asked["action"], asked["topic"], asked["acted"]) == ("pause", topic, True)
        await_until(lambda: call.states(topic) == {"paused"}, PATIENCE_S, "all is paused")
        (first, _) = call(f"/api/v1/partitions?topic={topic}")["items"]
        assert "anna@127.0.0.1" in first["reason"]
        assert "by hand" in first["reason"]
        source.produce(topic, records(500))
        assert call(f"{path}/resume", "POST")["changed"]
        await_copied(source, topic, target, f"A.{topic}")

        call(f"{CONNECTOR}/pause", "PUT")
        await_until(lambda: call.states(topic) == {"paused"}, PATIENCE_S, "all is paused again")
        assert call(f"{CONNECTOR}/status")["connector"]["state"] == "PAUSED"
        call(f"{CONNECTOR}/resume", "PUT")
        await_until(lambda: call.states(topic) == {"running"}, PATIENCE_S, "all runs again")
        assert run.stop() == 0
        assert TOKEN not in run.log
        assert 'event="call refused"' in run.log
        assert "anna@127.0.0.1" in run.log
    assert sum(target.offsets(f"A.{topic}").values()) == 1_500
    assert not call.answers()


def records(count: int) -> list[Outgoing]:
    """By turns for both partitions."""
    return [Outgoing(value=b"%d" % n, partition=n % 2) for n in range(count)]


def assert_same_as_status(call: Caller, file: Path, topic: str) -> None:
    def both() -> bool:
        theirs = status_of(file)["A->B"]["partitions"]
        ours = call("/api/v1/partitions?link=A-%3EB")["items"]
        assert len(theirs) == len(ours) == 2
        return [[each[name] for name in SAME] for each in ours] == [
            [each[name] for name in SAME] for each in theirs
        ]

    await_until(both, PATIENCE_S, "the API says what the status does")
    (found,) = call("/api/v1/topics")["items"]
    assert (found["topic"], found["target_topic"]) == (topic, f"A.{topic}")
    assert (found["partitions"], found["records"], found["lag_records"]) == (2, 1_000, 0)
    overview = call("/api/v1/overview")
    assert overview["lanes"] == overview["lanes_wanted"] == 2
    (link,) = overview["links"]
    assert (link["role"], link["states"]) == ("leading", {"running": 2})
    addresses = {each["alias"]: each["bootstrap"] for each in call("/api/v1/clusters")["items"]}
    assert set(addresses) == {"A", "B"}
    assert {each["task"] for each in call("/api/v1/tasks")["items"]} >= {"groups", "offset syncs"}

    def remembers() -> bool:
        return any(each["at_ms"] for each in call("/api/v1/history")["series"])

    await_until(remembers, PATIENCE_S, "a point of history")


def assert_connects(call: Caller, topic: str) -> None:
    names = call("/connectors")
    assert names[0] == "A->B.MirrorSourceConnector"
    assert len(names) == 3
    status = call(f"{CONNECTOR}/status")
    assert status["connector"]["state"] == "RUNNING"
    assert [task["state"] for task in status["tasks"]] == ["RUNNING"] * 2
    assert call(f"{CONNECTOR}/topics") == {names[0]: {"topics": [f"A.{topic}"]}}
    offsets = call(f"{CONNECTOR}/offsets")["offsets"]
    assert [each["offset"]["offset"] for each in offsets] == [499, 499]


def assert_refusals(call: Caller) -> None:
    assert call.refused("/api/v1/links", token=None)[0] == 401
    assert call.refused(f"{CONNECTOR}/pause", method="PUT", token="another one")[0] == 401
    assert call.refused("/connectors/none") == (404, "Connector none not found")
    assert call.refused("/connectors", method="POST", body={"name": "x"})[0] == 405
    status, message = call.refused("/api/v1/links/A-%3EB/topics/no-such/pause", method="POST")
    assert status == 404
    assert "there is no topic of that name" in message
