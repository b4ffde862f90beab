"""What the sync of topic configs decides; no broker takes part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import ConfigEntry
from causeway.config import LinkSettings
from causeway.control import ConfigPlan, MirroredTopic, SyncConfigs
from causeway.control.configs import ObservedConfigs, apply, plan, undone
from causeway.control.topic_configs import LIMIT_NAMES
from causeway.errors import AuthorizationError, BrokerError, CausewayError, UnreachableError
from tests.builders.settings import link

DEFAULTS = {"retention.ms": "604800000", "cleanup.policy": "delete", "segment.ms": "7"}


def without_segments(**changes: Any) -> LinkSettings:
    return link(config_properties_exclude=r"segment\..*", **changes)


def mirrored(name: str) -> MirroredTopic:
    return MirroredTopic(
        source=name,
        target=f"A.{name}",
        partitions=1,
        source_id="0" * 32,
        target_id="1" * 32,
        target_partitions=1,
        max_message_bytes=1_000_000,
    )


def entry(value: str, source: str = "DYNAMIC_TOPIC_CONFIG", **flags: bool) -> ConfigEntry:
    return ConfigEntry(value=value, source=source, default=source == "DEFAULT_CONFIG", **flags)


def entries(own: Mapping[str, str] = {}) -> dict[str, ConfigEntry]:
    found = {name: entry(value, "DEFAULT_CONFIG") for name, value in DEFAULTS.items()}
    return found | {name: entry(value) for name, value in own.items()}


def decide(source: Any, target: Any, **changes: Any) -> ConfigPlan:
    observed = ObservedConfigs(source={"t": source}, target={"A.t": target})
    return plan(observed, [mirrored("t")], without_segments(**changes))


def wanted(source: Any, target: Any, **changes: Any) -> dict[str, str | None]:
    planned = decide(source, target, **changes)
    assert planned.problems == ()
    return dict(planned.changes[0].configs) if planned.changes else {}


def test_what_is_set_on_the_source_is_set_on_the_mirror() -> None:
    source = entries({"retention.ms": "5", "cleanup.policy": "compact"})
    assert wanted(source, entries()) == {"retention.ms": "5", "cleanup.policy": "compact"}
    assert wanted(source, entries({"retention.ms": "9", "cleanup.policy": "compact"})) == {
        "retention.ms": "5"
    }


def test_a_mirror_in_order_is_left_alone() -> None:
    assert wanted(entries({"retention.ms": "5"}), entries({"retention.ms": "5"})) == {}
    by_broker = entries() | {"retention.ms": entry("5", "STATIC_BROKER_CONFIG")}
    assert wanted(entries({"retention.ms": "5"}), by_broker) == {}


def test_a_default_on_the_source_takes_the_mirror_s_own_value_away() -> None:
    assert wanted(entries(), entries({"retention.ms": "5"})) == {"retention.ms": None}
    assert wanted(entries(), entries()) == {}


def test_a_default_of_the_source_may_count_instead() -> None:
    target = entries({"retention.ms": "5"}) | {"cleanup.policy": entry("compact", "DEFAULT_CONFIG")}
    assert wanted(entries(), target, use_defaults_from="source") == {
        "retention.ms": "604800000",
        "cleanup.policy": "delete",
    }


def test_what_is_not_to_be_copied_is_left_alone_on_both_sides() -> None:
    source = entries({"segment.bytes": "1"}) | {
        "fixed": entry("1", read_only=True),
        "hidden": entry("1", sensitive=True),
        "server": entry("1", "STATIC_BROKER_CONFIG"),
    }
    own = dict.fromkeys(("segment.bytes", "segment.ms", "fixed", "hidden", "server"), "2")
    assert wanted(source, entries(own)) == {}


def test_limits_of_a_mirror_are_never_undone() -> None:
    source = entries(
        {
            "max.message.bytes": "1000",
            "compression.type": "zstd",
            "message.timestamp.after.max.ms": "1",
            "message.timestamp.type": "LogAppendTime",
        }
    )
    target = entries(
        {
            "max.message.bytes": "9000",
            "compression.type": "producer",
            "message.timestamp.after.max.ms": str(2**63 - 1),
            "message.timestamp.type": "CreateTime",
        }
    )
    assert wanted(source, target) == {}
    assert wanted(entries(dict.fromkeys(LIMIT_NAMES, "1")), target) == {}
    defaults = {name: entry("1", "DEFAULT_CONFIG") for name in LIMIT_NAMES}
    assert wanted(entries() | defaults, target) == {}


def test_a_config_that_the_target_does_not_have_is_a_problem_beside_the_others() -> None:
    source = entries({"retention.ms": "5", "new.one": "1"}) | {"new": entry("1", "DEFAULT_CONFIG")}
    planned = decide(source, entries())
    assert planned.changes == (SyncConfigs(topic="A.t", configs=(("retention.ms", "5"),)),)
    (problem,) = planned.problems
    assert problem.topic == "t"
    assert str(problem.error) == (
        "copy config new.one of t to A.t on B: B has no such config"
        " (name it in config.properties.exclude)"
    )
    assert len(decide(source, entries(), use_defaults_from="source").problems) == 1


def test_what_could_not_be_read_is_a_problem() -> None:
    hidden = AuthorizationError("read the configuration of topic", "t on A", "not allowed")
    assert [each.error for each in decide(hidden, entries()).problems] == [hidden]
    assert [each.error for each in decide(entries(), hidden).problems] == [hidden]
    assert decide(hidden, entries()).changes == ()


def test_topics_that_are_not_there_are_passed_over() -> None:
    planned = plan(
        ObservedConfigs(source={}, target={}),
        [mirrored("t")],
        without_segments(),
    )
    assert planned == ConfigPlan(changes=(), problems=())


configs = st.dictionaries(
    st.sampled_from([*DEFAULTS, "max.message.bytes", "compression.type"]), st.sampled_from("123")
)


@given(source=configs, target=configs, use=st.sampled_from(["source", "target"]))
def test_once_is_enough(source: dict[str, str], target: dict[str, str], use: Any) -> None:
    """After its changes a mirror is in order, and what is not ours to change is as it was."""
    changes = wanted(entries(source), entries(target), use_defaults_from=use)
    after = {**target, **{name: value for name, value in changes.items() if value is not None}}
    for name, value in changes.items():
        if value is None:
            del after[name]

    assert wanted(entries(source), entries(after), use_defaults_from=use) == {}
    for name in (*LIMIT_NAMES, "segment.ms"):
        assert after.get(name) == target.get(name)
    for name, value in source.items():
        if name in ("retention.ms", "cleanup.policy"):
            assert after.get(name, DEFAULTS[name]) == value


class FakeCluster:
    def __init__(self, answer: Mapping[str, CausewayError | None] | CausewayError) -> None:
        self.answer = answer
        self.asked: Any = None

    def alter_configs(self, changes: Any) -> Any:
        self.asked = changes
        if isinstance(self.answer, CausewayError):
            raise self.answer
        return self.answer


def test_changes_are_applied_in_bulk_with_an_answer_each() -> None:
    first = SyncConfigs(topic="A.t", configs=(("retention.ms", None),))
    second = SyncConfigs(topic="A.u", configs=(("cleanup.policy", "compact"),))
    refused = CausewayError("configure topic", "A.u on B", "no")
    cluster: Any = FakeCluster({"A.t": None, "A.u": refused})
    assert apply([first, second], cluster) == {first: {}, second: {"cleanup.policy": refused}}
    assert cluster.asked == {"A.t": {"retention.ms": None}, "A.u": {"cleanup.policy": "compact"}}

    gone = UnreachableError("reach", "cluster B", "no broker answered")
    down: Any = FakeCluster(gone)
    assert apply([first, second], down) == {
        first: {"retention.ms": gone},
        second: {"cleanup.policy": gone},
    }


class Refusing:
    """A target that refuses some configs, and all others of a request with them."""

    def __init__(self, *configs: str) -> None:
        self.refused = frozenset(configs)
        self.set: dict[str, dict[str, str | None]] = {}

    def alter_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> Any:
        answers: dict[str, CausewayError | None] = {}
        for topic, configs in changes.items():
            answers[topic] = (
                BrokerError("configure topic", topic, code=40, name="INVALID_CONFIG")
                if self.refused & configs.keys()
                else None
            )
            if answers[topic] is None:
                self.set.setdefault(topic, {}).update(configs)
        return answers


def test_one_refused_config_does_not_keep_the_others_from_being_set() -> None:
    change = SyncConfigs(topic="A.t", configs=(("flush.ms", "1"), ("retention.ms", "2")))
    cluster: Any = Refusing("flush.ms")
    answers = apply([change], cluster)
    assert list(answers[change]) == ["flush.ms"]
    assert cluster.set == {"A.t": {"retention.ms": "2"}}
    items, again = undone(answers, "B")
    assert (again, list(items)) == (True, ["A.t"])


def test_configs_of_tiered_storage_are_left_out_together_and_for_good() -> None:
    change = SyncConfigs(
        topic="A.t",
        configs=(
            ("local.retention.ms", "5"),
            ("remote.storage.enable", "true"),
            ("retention.ms", "2"),
        ),
    )
    cluster: Any = Refusing("remote.storage.enable")
    answers = apply([change], cluster)
    assert cluster.set == {"A.t": {"retention.ms": "2"}}
    items, again = undone(answers, "B")
    assert not again
    assert "remote.storage.enable=true of the source is left out" in items["A.t"]
