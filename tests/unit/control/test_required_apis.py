"""What a link needs of its brokers: the table, its page, and what is said where it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.control import NEEDS, ApiNeed, required_apis
from causeway.control.required_apis import lacking
from causeway.errors import UnreachableError
from causeway.wire import apis
from tests.harness.daemon import link

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "brokers.md"
LINK = link("localhost:1", "localhost:2", ".*")
ALL = {api.key: (0, 99) for need in NEEDS for api in need.apis}


class Brokers:
    """A cluster whose brokers have these APIs; None: it does not answer."""

    def __init__(self, versions: Mapping[int, Mapping[int, tuple[int, int]] | None]) -> None:
        self._versions = versions
        self.timeout_s = 1.0

    def __str__(self) -> str:
        return "B"

    def bootstrap_check(self, timeout_s: float) -> Any:
        return SimpleNamespace(brokers=self._versions)

    @contextmanager
    def lease(self, node: int | None, deadline: object) -> Any:
        versions = self._versions[min(self._versions) if node is None else node]
        if versions is None:
            raise UnreachableError("connect to", "B", "connection refused", retriable=True)
        yield SimpleNamespace(versions=versions)


def lacks(
    versions: Mapping[int, Mapping[int, tuple[int, int]] | None], **more: Any
) -> list[tuple[str, bool]]:
    from dataclasses import replace

    cluster = cast(Cluster, Brokers(versions))
    found = lacking(replace(LINK, **more), "target", cluster)
    return [(each.cause, each.need.required) for each in found]


def without(*hidden: apis.Api) -> dict[int, tuple[int, int]]:
    keys = {api.key for api in hidden}
    return {key: limits for key, limits in ALL.items() if key not in keys}


def test_brokers_that_have_all_lack_nothing() -> None:
    assert lacks({1: ALL, 2: ALL}) == []


def test_each_broker_is_asked_and_what_is_required_comes_first() -> None:
    found = lacks(
        {
            1: without(apis.DESCRIBE_PRODUCERS),
            2: {**ALL, apis.LANE_PRODUCE.key: (3, 7)},
            3: without(apis.DESCRIBE_PRODUCERS),
            4: None,
        }
    )
    (produce, required), (producers, optional) = found
    assert (required, optional) == (True, False)
    assert produce.startswith("broker 2 has Produce in versions 3 to 7, and Causeway needs version")
    assert produce.endswith("no record can be written")
    assert producers.startswith("brokers 1, 3 have no DescribeProducers (API 61): after a crash")


def test_a_broker_without_topic_ids_cannot_name_the_others() -> None:
    ((cause, required),) = lacks({1: {**ALL, apis.METADATA.key: (0, 9)}, 2: {}})
    assert required
    assert cause.startswith("a broker has Metadata in versions 0 to 9, and Causeway needs version")
    assert "version 10, the first with topic ids" in cause


def test_a_broker_that_has_dropped_what_we_speak() -> None:
    ((cause, _),) = lacks({1: {**ALL, apis.LANE_PRODUCE.key: (14, 20)}})
    assert "Produce in versions 14 to 20, and Causeway needs version 13 or older" in cause


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_what_a_link_does_not_use_is_not_missed(delivery: str) -> None:
    versions = without(apis.INIT_PRODUCER_ID, apis.FIND_COORDINATOR, apis.DESCRIBE_PRODUCERS)
    found = lacks({1: versions}, delivery=delivery)
    assert bool(found) == (delivery == "exactly-once")


def test_no_broker_answers() -> None:
    with pytest.raises(UnreachableError):
        lacks({1: None})


def test_no_release_of_kafka_is_named() -> None:
    for need in NEEDS:
        text = f"{need.use} {need.without}"
        assert "Kafka" not in text, text


def _row(need: ApiNeed, api: apis.Api) -> str:
    needed = "yes" if need.required else "no"
    return f"| {api.name} | {api.lowest} | {needed} | {need.use} | {need.without} |"


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_page_lists_the_table(side: required_apis.Side) -> None:
    heading = f"## APIs of the {side}"
    _, _, rest = PAGE.read_text().partition(heading)
    section = rest.partition("\n## ")[0]
    found = [line for line in section.splitlines() if line.startswith("| ")][1:]
    wanted = [_row(need, api) for need in NEEDS if need.side == side for api in need.apis]
    assert found == wanted, "write this into docs/reference/brokers.md:\n" + "\n".join(wanted)


def test_what_requests_need_is_in_the_table() -> None:
    """But for what every connection begins with."""
    listed = {api for need in NEEDS for api in need.apis}
    handshake = {apis.API_VERSIONS, apis.SASL_HANDSHAKE, apis.SASL_AUTHENTICATE}
    assert set(apis.ALL) == listed | handshake
