"""Links of a test's own, records in them, and waiting until they are mirrored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.filters import compile_patterns
from causeway.naming import ReplicationPolicy
from tests.harness.daemon import link
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.lanes import client
from tests.harness.waiting import await_until

PATIENCE_S = 120.0


def fill(kafka: KafkaTools, topic: str, count: int, *, partitions: int = 1, first: int = 0) -> None:
    kafka.produce(
        topic,
        [
            Outgoing(value=b"value %d" % n, key=b"%d" % n, partition=n % partitions)
            for n in range(first, first + count)
        ],
    )


def await_mirrored(source: KafkaTools, target: KafkaTools, topic: str) -> None:
    mirror = f"{topic.partition('-')[0]}.{topic}"
    await_until(lambda: source.digests(topic) == target.digests(mirror), 60, f"{topic} mirrored")


def mirror_of(
    source: KafkaTools, target: KafkaTools, prefix: str, **more: Any
) -> tuple[LinkSettings, str]:
    """A link of this test's own, as what is asked of one stands for whoever leads it next, and how
    the names of its mirrors begin."""
    alias = prefix.partition("-")[0]
    a = client(alias, source.bootstrap)
    own = {"source": a, "source_admin": a, "policy": ReplicationPolicy(source_alias=alias)}
    found = link(source.bootstrap, target.bootstrap, prefix + ".*", more={**own, **more})
    return found, f"{alias}."


def settings_of(*links: LinkSettings) -> Settings:
    return Settings(links=links, run=RunSettings(), spark={})


def await_same(source: KafkaTools, target: KafkaTools, topic: str) -> None:
    def same() -> bool:
        there = target.partition_count(topic) is not None
        return there and source.digests(topic) == target.digests(topic)

    await_until(same, 60, f"{topic} mirrored")


class KilledError(BaseException):
    """As if by SIGKILL: nothing cleans up."""


def kill_after(patch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    """Whoever calls that is killed right after it."""
    real: Callable[..., object] = getattr(owner, name)

    def call(*arguments: object, **named: object) -> object:
        real(*arguments, **named)
        raise KilledError

    patch.setattr(owner, name, call)


def identity(
    source: KafkaTools, target: KafkaTools, prefix: str, groups: str = "none"
) -> LinkSettings:
    """A link that keeps the names of topics, as who fails over wants them."""
    found, _ = mirror_of(source, target, prefix)
    control = replace(
        found.control,
        groups=compile_patterns(groups),
        emit_checkpoints_interval_s=0.5,
        sync_group_offsets_enabled=True,
        sync_group_offsets_interval_s=600.0,
    )
    alias = found.source.alias
    policy = ReplicationPolicy(kind="identity", source_alias=alias)
    return replace(found, policy=policy, control=control, sole_writer=False)


def turned(link: LinkSettings) -> LinkSettings:
    """The way back."""
    return replace(
        link,
        source=link.target,
        source_admin=link.target_admin,
        target=link.source,
        target_admin=link.source_admin,
        policy=replace(link.policy, source_alias=link.target.alias),
    )


def await_records(kafka: KafkaTools, topic: str, count: int) -> None:
    def there() -> bool:
        partitions = kafka.partition_count(topic)
        return partitions is not None and sum(kafka.offsets(topic).values()) >= count

    await_until(there, PATIENCE_S, f"{count} records in {topic}")
