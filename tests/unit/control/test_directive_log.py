"""What is read of a directives topic that somebody deletes, or makes anew."""

from __future__ import annotations

import pytest

from causeway.cluster import Cluster
from causeway.link_topics import (
    DirectiveLog,
    PauseDirective,
    Scope,
    directive_log,
    encode_directive,
)
from causeway.model import TopicPartition
from tests.harness.raw_batches import Rec
from tests.harness.world import FakeCluster, Log

TOPIC = "__causeway.A.B.directives"


def log_of(*topics: str) -> Log:
    log = Log()
    for topic in topics:
        wish = PauseDirective(scope=Scope(topic), who="anna@ops", at=1)
        key, value = encode_directive((wish.key, wish))
        log.append([Rec(offset=log.end, key=key, value=value)])
    return log


class Target(FakeCluster):
    def __init__(self, log: Log) -> None:
        super().__init__(TOPIC, "a" * 32, {0: log}, compacted=True)

    def make_anew(self, log: Log) -> None:
        self.topic_id, self.logs = "b" * 32, {0: log}


def reader(target: Target) -> DirectiveLog:
    assert isinstance(target, FakeCluster)
    cluster: Cluster = target  # type: ignore[assignment]
    return DirectiveLog(cluster, TOPIC)


def paused(log: DirectiveLog, topic: str) -> bool:
    return log.directives.pause_of(TopicPartition(topic, 0)) is not None


@pytest.fixture(autouse=True)
def _asks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directive_log, "_NAMED_S", 0.0)


def test_a_recreated_topic_is_read_from_its_start() -> None:
    target = Target(log_of("orders"))
    log = reader(target)
    log.look()
    assert paused(log, "orders")
    target.make_anew(log_of("bills", "items", "users"))
    come = log.look()
    assert [directive.scope.topic for _, directive in come] == ["bills", "items", "users"]
    assert (log.topic_id, log.end) == ("b" * 32, 3)
    assert paused(log, "bills")
    assert not paused(log, "orders")


def test_known_directives_are_kept_while_a_recreated_topic_is_unreadable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(log_of("orders"))
    log = reader(target)
    log.look()
    target.make_anew(log_of("bills", "items"))
    with monkeypatch.context() as broken:
        broken.setattr(target, "fetch", None)
        with pytest.raises(TypeError):
            log.look()
    assert paused(log, "orders")
    assert len(log.look()) == 2
    assert paused(log, "bills")
