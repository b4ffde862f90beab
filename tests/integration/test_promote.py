"""A mirror is promoted: only when nothing is left to copy, and then it is everybody's to write."""

from __future__ import annotations

import pytest

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.daemon import overdue
from causeway.errors import ConfigError, PartitionsFailedError
from causeway.model import State, TopicPartition
from causeway.operate.directives import act
from causeway.operate.failover import promote
from causeway.operate.failover.ending import Ending
from causeway.status import status, verdict
from tests.harness.daemon import RunningDaemon
from tests.harness.kafka_tools import KafkaTools
from tests.harness.links import KilledError, await_same, fill, identity, kill_after
from tests.harness.waiting import await_until

pytestmark = pytest.mark.integration


def settings_of(link: LinkSettings) -> Settings:
    return Settings(links=(link,), run=RunSettings(lease_s=3.0), spark={})


def test_a_topic_is_promoted_and_the_others_go_on(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, group = prefix + "one", prefix + "other", prefix + "readers"
    for topic in (one, other):
        source.create_topic(topic, 2)
        fill(source, topic, 100, partitions=2)
    link = identity(source, target, prefix, group)
    settings = settings_of(link)
    with RunningDaemon(monkeypatch, link) as run:
        await_same(source, target, one)
        source.commit_group(group, {(one, 0): 20, (one, 1): 50, (other, 0): 7})
        (found,) = promote(settings, topic=one, who="anna@ops", reason="moving")
        assert found.changed
        points = found.cuts[one].points
        assert [(p.partition, p.source, p.targets) for p in points] == [
            (number, 50, ((TopicPartition(one, number), 50),)) for number in (0, 1)
        ]
        places = target.group_offsets(group)
        assert {at: places.get(at) for at in ((one, 0), (one, 1))} == {
            (one, 0): 20,
            (one, 1): 50,
        }
        status = run.await_state(one, State.PROMOTED, 2)
        assert (
            status.reason
            == "promoted by anna@ops at "
            + str(status.reason)[-len("2026-01-31T12:00:00Z: moving") :]
        )
        # From now on both are written to, each for itself; the other topic goes on.
        target.produce(
            one,
            [b"of B"],
        )
        fill(source, one, 10, partitions=2)
        fill(source, other, 10, partitions=2)
        await_same(source, target, other)
        assert sum(target.offsets(one).values()) == 101
        (again,) = promote(settings, topic=one, who="ben@ops")
        assert not again.changed
        assert again.before is not None
        assert again.before.who == "anna@ops"
        assert again.cuts == found.cuts
        with pytest.raises(ConfigError, match="causeway failback"):
            act.resume(settings, topic=one)
    with RunningDaemon(monkeypatch, link) as run:
        run.await_state(one, State.PROMOTED, 2)
        fill(source, other, 10, partitions=2)
        await_same(source, target, other)
        assert sum(target.offsets(one).values()) == 101


def test_a_promotion_that_was_killed_is_released_or_gone_on_with(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver releases it by itself, and the check reports it until then. A next call goes on
    at once, though something lags by then."""
    topic = prefix + "one"
    source.create_topic(topic, 1)
    fill(source, topic, 100)
    link = identity(source, target, prefix)
    settings = settings_of(link)
    with RunningDaemon(monkeypatch, link) as run:
        await_same(source, target, topic)
        with monkeypatch.context() as patch:
            kill_after(patch, Ending, "begin")
            with pytest.raises(KilledError):
                promote(settings, who="anna@ops")
            run.await_state(topic, State.PROMOTING)
            assert verdict(status(settings)) == PartitionsFailedError.exit_code
            patch.setattr(overdue, "PROMOTION_HOLD_S", 1.0)
            run.await_state(topic, State.RUNNING)
            await_until(lambda: verdict(status(settings)) == 0, 60)
            fill(source, topic, 5)
            await_same(source, target, topic)
            patch.setattr(overdue, "PROMOTION_HOLD_S", 600.0)
            with pytest.raises(KilledError):
                promote(settings, who="anna@ops")
        run.await_state(topic, State.PROMOTING)
        fill(source, topic, 5)  # a producer had not stopped after all
        (found,) = promote(settings, who="ben@ops")
        assert found.changed
        assert found.cuts[topic].points[0].source == 110
        run.await_state(topic, State.PROMOTED)
    assert source.digests(topic) == target.digests(topic)


def test_what_lags_is_not_promoted_and_goes_on(
    source: KafkaTools, target: KafkaTools, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = prefix + "one"
    link = identity(source, target, prefix)
    settings = settings_of(link)
    with pytest.raises(ConfigError, match="it mirrors no topics"):
        promote(settings)
    source.create_topic(topic, 1)
    fill(source, topic, 100)
    with pytest.raises(PartitionsFailedError, match="not begun"):
        promote(settings, wait_s=0)
    with RunningDaemon(monkeypatch, link):
        await_same(source, target, topic)
        act.pause(settings, topic=topic)
        fill(source, topic, 5)
        (dry,) = promote(settings, dry_run=True)
        (lagging,) = map(str, dry.lagging)
        assert lagging.startswith(f"{topic}-0: mirrored up to 100 of 105, paused by ")
        with pytest.raises(PartitionsFailedError, match="mirrored up to 100 of 105"):
            promote(settings, wait_s=1)
        act.resume(settings, topic=topic)
        await_same(source, target, topic)
    # Nobody leads now, and nothing is left: that is proof enough.
    (found,) = promote(settings)
    assert found.changed
    with RunningDaemon(monkeypatch, link) as run:
        run.await_state(topic, State.PROMOTED)
        fill(source, topic, 5)
        target.produce(topic, [b"of B"])
    assert target.offsets(topic) == {0: 106}
