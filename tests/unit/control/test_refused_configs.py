"""A new topic with configs that the target refuses: it is created with all others."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from causeway.cluster import NewTopic
from causeway.control.topic_changes import accepted_configs
from causeway.errors import BrokerError, CausewayError


class Target:
    def __init__(self, refused: Collection[str]) -> None:
        self._refused = frozenset(refused)
        self.requests = 0

    def create_topics(
        self, topics: list[NewTopic], validate_only: bool
    ) -> dict[str, CausewayError | None]:
        assert validate_only
        self.requests += 1
        return {
            topic.name: BrokerError("create topic", topic.name, code=40, name="INVALID_CONFIG")
            if self._refused & topic.configs.keys()
            else None
            for topic in topics
        }


def taken(refused: Collection[str], **configs: str) -> tuple[dict[str, str] | None, int]:
    target: Any = Target(refused)
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic(name="t", partitions=1, replication_factor=1, configs=dotted)
    found = accepted_configs({"t": topic}, target)
    return (dict(found["t"].configs) if found else None), target.requests


def test_tiered_storage_goes_with_all_its_configs_in_one_request() -> None:
    configs = {"remote_storage_enable": "true", "local_retention_ms": "5", "retention_ms": "-1"}
    assert taken(["remote.storage.enable"], **configs) == ({"retention.ms": "-1"}, 1)


def test_each_config_that_is_not_refused_stays() -> None:
    found, _ = taken(["segment.bytes"], segment_bytes="14", flush_ms="9", cleanup_policy="compact")
    assert found == {"flush.ms": "9", "cleanup.policy": "compact"}


def test_no_topic_is_created_without_a_config_that_decides_which_records_it_keeps() -> None:
    assert taken(["cleanup.policy"], cleanup_policy="compact", flush_ms="9")[0] is None
