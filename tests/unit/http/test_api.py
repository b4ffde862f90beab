"""/api/v1 says what the run's snapshot does, page by page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from causeway.http.history import History
from causeway.http.views import View
from causeway.link_topics import LinkDirectives, PauseDirective, Scope, ThrottleDirective
from causeway.model import State
from causeway.status import GroupStatus, LinkStatus, Role, Snapshot
from tests.builders.served import PASSWORD, client, settings
from tests.builders.status import KEPT, NOW, UNKNOWN, full, link, partition
from tests.builders.status import at as at_position
from tests.harness.statuses import replace

GROUPS = (
    GroupStatus(group="audit", followed=True, partitions=3, reason=None),
    GroupStatus(group="Billing", followed=True, partitions=1, reason="has members"),
    GroupStatus(group="console-1", followed=False, partitions=0, reason="excluded"),
)


def run() -> Snapshot:
    back = replace(
        link(replace(partition(0), topic="payments", target_topic="B.payments", lane=1)),
        name="B->A",
        source="B",
        target="A",
    )
    return full(replace(link(), groups=GROUPS), back)


@pytest.fixture
def api() -> Iterator[TestClient]:
    with client(run, settings(), settings("B", "A")) as found:
        yield found


def items(client: TestClient, path: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def test_the_overview(api: TestClient) -> None:
    found = api.get("/api/v1/overview").json()

    assert found["started_at_ms"] == (NOW - 600) * 1000
    assert found["taken_at_ms"] == NOW * 1000
    assert (found["lanes"], found["lanes_wanted"]) == (1, 2)
    assert [each["link"] for each in found["links"]] == ["A->B", "B->A"]
    assert found["links"][0] == api.get("/api/v1/links/A-%3EB").json()
    assert found["links"][0] == {
        "link": "A->B",
        "source": "A",
        "target": "B",
        "state": "stopped",
        "worst": "stopped",
        "role": "leading",
        "reason": None,
        "planned": True,
        "topics": 1,
        "partitions": 2,
        "states": {"running": 1, "stopped": 1},
        "lag_records": 20,
        "lag_ms": 5_000,
        "records": 180,
        "records_per_s": 20.0,
        "bytes_per_s": 2_000.0,
        "problems": 1,
        "tasks_failing": 1,
        "groups": 2,
    }


def test_clusters_without_their_logins(api: TestClient) -> None:
    found = api.get("/api/v1/clusters")
    assert found.json()["items"] == [
        {
            "alias": "A",
            "bootstrap": ["a.example:9092", "a2.example:9092"],
            "security_protocol": "SASL_SSL",
            "source_of": ["A->B"],
            "target_of": ["B->A"],
        },
        {
            "alias": "B",
            "bootstrap": ["b.example:9092"],
            "security_protocol": "PLAINTEXT",
            "source_of": ["B->A"],
            "target_of": ["A->B"],
        },
    ]
    assert PASSWORD not in found.text


def test_a_topic_and_its_partitions(api: TestClient) -> None:
    (orders, payments) = items(api, "topics")
    assert (orders["topic"], orders["state"], orders["lag_records"]) == ("orders", "stopped", 20)
    assert (payments["link"], payments["target_topic"]) == ("B->A", "B.payments")
    assert orders == api.get("/api/v1/links/A->B/topics/orders").json()

    first, second = items(api, "partitions", topic="orders")
    assert first == {
        "link": "A->B",
        "topic": "orders",
        "partition": 0,
        "target_topic": "A.orders",
        "transform": None,
        "preserving": None,
        "state": "running",
        "reason": None,
        "lane": 0,
        "source_end": 100,
        "high_watermark": 140,
        "mirrored_to": 90,
        "lag_records": 10,
        "lag_bytes": 1_000,
        "lag_ms": 5_000,
        "held_records": 40,
        "held_ms": 90_000,
        "newest_record_ms": (NOW - 60) * 1000,
        "records": 90,
        "bytes": 9_000,
        "records_per_s": 10.0,
        "bytes_per_s": 1_000.0,
        "recoveries": 2,
        "failures": 1,
        "lost_records": 0,
    }
    assert second == api.get("/api/v1/links/A->B/topics/orders/partitions/1").json()


def test_a_partition_that_preserves_offsets() -> None:
    with client(lambda: full(link(replace(partition(0), preserving=KEPT)))) as api:
        (found,) = items(api, "partitions")
    assert found["preserving"] == {
        "offsets_from": 1_000,
        "filled_to": 400,
        "filled_per_s": 100.0,
        "left_s": 6.0,
        "filled": {"gaps": 2, "beginning": 400, "markers": 5, "transactions": 0, "filler": 0},
    }


def test_what_is_not_known_is_null() -> None:
    new = replace(partition(0), **UNKNOWN, records=0)
    with client(lambda: full(link(new))) as api:
        (found,) = items(api, "partitions")
        (topic,) = items(api, "topics")
    unknown = {name for name, value in found.items() if value is None}
    assert unknown == {
        "reason", "transform", "preserving", "source_end", "high_watermark", "mirrored_to",
        "lag_records", "lag_bytes", "lag_ms", "held_records", "newest_record_ms",
    }  # fmt: skip
    assert topic["lag_records"] is None
    assert topic["lag_ms"] is None


def test_a_reason_that_is_no_utf_8_is_still_shown() -> None:
    odd = replace(partition(0, State.STOPPED), reason="no file caf\udce9")
    with client(lambda: full(link(odd))) as api:
        (found,) = api.get("/api/v1/partitions").json()["items"]
        one = api.get("/api/v1/links/A-%3EB/topics/orders/partitions/0")
    assert found["reason"] == one.json()["reason"] == "no file caf?"


def test_a_link_that_another_process_leads_has_no_lag_of_zero() -> None:
    waits = replace(link(), role=Role.STANDBY, reason="led by x", partitions=(), planned=False)
    with client(lambda: full(waits)) as api:
        (found,) = items(api, "links")
    assert (found["role"], found["reason"]) == ("standby", "led by x")
    assert found["lag_records"] is None
    assert found["lag_ms"] is None


def test_the_rest(api: TestClient) -> None:
    assert items(api, "lanes")[0]["rss_bytes"] == 50_000_000
    (transform,) = items(api, "transforms", link="A->B")
    assert (transform["dropped"], transform["troubles"]) == (7, ["no such function"])
    assert items(api, "problems", link="A->B") == [
        {"link": "A->B", "topic": "odd", "reason": "no permission"}
    ]
    tasks = {(each["link"], each["task"]): each for each in items(api, "tasks")}
    assert tasks["A->B", "groups"]["items"] == {"g": "has members"}
    assert tasks["A->B", "ACLs"] == {
        "link": "A->B", "task": "ACLs", "reason": "refused", "items": {}, "figures": {},
        "done_at_ms": None,
    }  # fmt: skip
    assert tasks["B->A", "heartbeats"]["done_at_ms"] == NOW * 1000, "of a pair without a flow"


def test_the_answer_has_the_directives() -> None:
    pause = PauseDirective(scope=Scope("orders", 3), who="anna@ops1", why="full", at=int(NOW))
    limit = ThrottleDirective(who="ben@ops1", at=int(NOW), bytes_per_s=1_000)
    with client(lambda: full(replace(link(), directives=LinkDirectives.of([pause, limit])))) as api:
        first, second = items(api, "directives", link="A->B")
    assert first == {
        "link": "A->B", "do": "pause", "topic": "orders", "partition": 3, "who": "anna@ops1",
        "why": "full", "at_ms": int(NOW), "paused": True, "bytes_per_s": None, "until_ms": None,
    }  # fmt: skip
    assert (second["do"], second["topic"], second["bytes_per_s"]) == ("throttle", None, 1_000)


def test_a_topic_or_group_is_explained_by_what_the_process_knows() -> None:
    stopped = replace(partition(1, State.STOPPED), reason="truncated")
    groups = (
        GroupStatus(group="app", followed=True, partitions=2, reason=None),
        GroupStatus(group="late", followed=True, partitions=1, reason="it has members on B"),
    )
    made = replace(link(partition(0), stopped), groups=groups)
    path = "/api/v1/links/A-%3EB/explain"
    with client(lambda: full(made)) as api:
        orders = api.get(path, params={"topic": "orders"}).json()
        first = api.get(path, params={"topic": "orders", "partition": 0}).json()
        other = api.get(path, params={"topic": "bills"}).json()
        unseen = api.get(path, params={"topic": "payments"}).json()
        app = api.get(path, params={"group": "app"}).json()
        late = api.get(path, params={"group": "late"}).json()
        nobody = api.get(path, params={"group": "nobody"}).json()
        wrong = api.get(path, params={"topic": "orders", "group": "app"})
    assert (orders["code"], orders["done"], orders["target"]) == ("stopped", False, "A.orders")
    assert orders["rule"] == {"key": "topics", "pattern": "orders.*", "place": None}
    assert (first["kind"], first["code"]) == ("partition", "running")
    assert (other["code"], other["unknown"][0].split(";")[0]) == (
        "not-included",
        "this process mirrors no topic with that name",
    )
    assert (unseen["code"], unseen["done"]) == ("unknown", None)
    assert (app["code"], app["done"]) == ("checkpoints-only", True)
    assert (late["code"], late["answer"]) == (
        "not-yet",
        "not in the last run: it has members on B",
    )
    assert nobody["code"] == "unknown"
    assert wrong.status_code == 400


def test_groups_are_filtered(api: TestClient) -> None:
    def names(**parameters: Any) -> list[str]:
        return [each["group"] for each in items(api, "groups", **parameters)]

    assert names() == ["audit", "Billing", "console-1"]
    assert names(search="bill") == ["Billing"]
    assert names(followed=False) == ["console-1"]
    assert names(link="B->A") == []


def many(topics: int, partitions: int) -> LinkStatus:
    """Every tenth topic has a partition that stopped; the later, the further behind."""
    return link(
        *(
            replace(
                partition(number, State.STOPPED if at % 10 == 0 and number == 1 else State.RUNNING),
                topic=f"Topic-{at:05}",
                **at_position(100 - at % 100),
                lane=at % 4,
            )
            for at in range(topics)
            for number in range(partitions)
        )
    )


def test_pages_are_cut_in_order_and_know_the_total() -> None:
    with client(lambda: full(many(30, 3))) as api:
        every = items(api, "partitions", limit=1000)
        assert len(every) == 90
        assert every == sorted(every, key=lambda each: (each["topic"], each["partition"]))
        found = []
        for offset in range(0, 100, 7):
            page = api.get("/api/v1/partitions", params={"offset": offset, "limit": 7}).json()
            assert (page["total"], page["offset"], page["limit"]) == (90, offset, 7)
            found += page["items"]
        assert found == every

        stopped = [each for each in every if each["state"] == "stopped"]
        assert len(stopped) == 3
        assert items(api, "partitions", state="stopped") == stopped
        both = items(api, "partitions", state=["stopped", "running"], limit=1000)
        assert both == every
        some = items(api, "partitions", search="TOPIC-0001", offset=5, limit=10)
        assert some == [each for each in every if "Topic-0001" in each["topic"]][5:15]
        assert items(api, "partitions", search="00010", state="stopped") == [stopped[1]]
        assert items(api, "partitions", lane=3, limit=1000) == [
            each for each in every if each["lane"] == 3
        ]

        worst = items(api, "topics", state="stopped")
        assert [each["topic"] for each in worst] == ["Topic-00000", "Topic-00010", "Topic-00020"]
        behind = items(api, "topics", order="lag", limit=2)
        assert [each["topic"] for each in behind] == ["Topic-00029", "Topic-00028"]
        first = items(api, "topics", order="state", limit=3)
        assert first == worst


def test_100_000_partitions() -> None:
    """Looked at once; then each page is cut out of that view."""
    looks = 0
    snapshot = full(many(10_000, 10))

    def look() -> Snapshot:
        nonlocal looks
        looks += 1
        return snapshot

    with client(look) as api:
        began = time.perf_counter()
        api.get("/api/v1/overview")
        print(f"first look {time.perf_counter() - began:.3f} s")
        for path in (
            "partitions?offset=99900",
            "partitions?state=stopped&offset=900",
            "partitions?search=-0999&limit=50",
            "topics?search=999",
            "topics?order=lag",
            "overview",
        ):
            began = time.perf_counter()
            answer = api.get(f"/api/v1/{path}")
            print(f"{path}: {1000 * (time.perf_counter() - began):.1f} ms")
            assert answer.status_code == 200
            assert len(answer.content) < 100_000
    assert looks == 1


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("links/A->C", 404, "there is no link A->C: A->B, B->A"),
        ("links/A->B/topics/none", 404, "A->B mirrors no topic none"),
        ("links/A->B/topics/orders/partitions/9", 404, "A->B mirrors no partition orders-9"),
        ("topics?link=A->C", 404, "there is no link A->C"),
        ("topics?limit=1001", 400, "limit: Input should be less than or equal to 1000"),
        ("topics?offset=-1", 400, "offset: "),
        ("topics?state=broken", 400, "state: Input should be"),
        ("topics?order=size", 400, "order: "),
        ("nothing", 404, "HTTP 404 Not Found"),
    ],
)
def test_what_is_refused(api: TestClient, path: str, status: int, message: str) -> None:
    answer = api.get(f"/api/v1/{path}")
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert message in answer.json()["message"]


def test_history_begins_with_the_run_and_thins_out() -> None:
    history = History()
    for second in range(0, 1000, 5):
        history.note(View(replace(full(), taken_at=NOW + second)))
    history.note(View(replace(full(), taken_at=NOW)))  # an old one says nothing new
    with client(history=history) as api:
        (every,) = api.get("/api/v1/history").json()["series"]
        assert len(every["at_ms"]) == 200
        assert every["records_per_s"][0] == 20.0
        assert every["lag_records"][0] == 20
        (few,) = api.get("/api/v1/history?points=10&link=A->B").json()["series"]
        assert len(few["at_ms"]) == 10
        assert few["at_ms"][-1] == every["at_ms"][-1]
        (new,) = api.get(f"/api/v1/history?since_ms={every['at_ms'][-2]}").json()["series"]
        assert new["at_ms"] == every["at_ms"][-1:]


def test_before_the_run_can_be_looked_at() -> None:
    with client(None) as api:
        assert api.get("/api/v1/topics").status_code == 503
        assert "has just started" in api.get("/connectors").json()["message"]
        assert api.get("/healthz").status_code == 200
        assert api.get("/readyz").status_code == 503


def test_an_internal_error_is_reported_without_its_details(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Snapshot:
        raise ValueError("something of the inside")

    with client(broken) as api:
        answer = api.get("/api/v1/topics")
    assert answer.status_code == 500
    assert answer.json() == {"error_code": 500, "message": "internal error: ValueError"}
    assert caplog.messages == ["internal error"]


def test_probes_tell_how_it_is(api: TestClient) -> None:
    assert api.get("/readyz").json() == {"status": "ready"}
    for snapshot, why in (
        (replace(run(), draining=True), "the run is draining"),
        (full(replace(link(), role=Role.FAILED)), "A->B is failed"),
        (full(replace(link(), role=Role.STARTING)), "A->B is starting"),
        (full(replace(link(), planned=False)), "A->B reads its topics"),
        (replace(run(), lanes=()), "no lane is connected"),
        (replace(run(), refused={"A->B": "SCRAM refused"}), "A->B: a cluster has refused"),
    ):
        with client(lambda s=snapshot: s) as other:  # type: ignore[misc]
            answer = other.get("/readyz")
            assert answer.status_code == 503
            assert why in answer.json()["reason"]
    standby = replace(link(), role=Role.STANDBY, partitions=())
    with client(lambda: replace(full(standby), lanes=())) as other:
        assert other.get("/readyz").status_code == 200


def test_a_main_thread_that_is_silent_for_long_hangs(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.get("/healthz").json() == {"status": "ok"}
    monkeypatch.setattr("causeway.http.app._SILENT_S", -1.0)
    answer = api.get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (503, "hanging")


def test_metrics_are_there_too(api: TestClient) -> None:
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'causeway_partition_lag_records{link="A->B",partition="0",topic="orders"} 10.0' in (
        answer.text
    )
    assert "process_resident_memory_bytes" in answer.text


def test_the_api_describes_itself(api: TestClient) -> None:
    described = api.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    paths = {path for path in described["paths"] if path.startswith("/api/v1")}
    assert {"/api/v1/topics", "/api/v1/links/{link}/topics/{topic}"} <= paths
    assert "422" not in str(described)
    page = api.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in described["paths"]:
        assert path in page.text
    assert "://" not in page.text, "nothing is fetched from elsewhere"
    assert "<script" not in page.text
    assert api.get("/page/docs.css").status_code == 200
    assert api.get("/page/../app.py").status_code == 404
