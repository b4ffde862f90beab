"""What a link's plan decides, for every mix of source and target; no broker takes part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from causeway.cluster import NewTopic
from causeway.control import AlterTopicConfigs, Change, CreateTopic, GrowTopic
from causeway.control.topic_changes import apply
from causeway.control.topic_configs import LONG_MAX
from causeway.control.topics import plan
from causeway.errors import AuthorizationError, BrokerError, CausewayError
from causeway.model import NO_TOPIC_ID
from tests.builders.settings import filtered_link
from tests.builders.topics import DEFAULTS, entries, entry, observed, topic

WIDE = str(LONG_MAX)


def only(changes: tuple[Change, ...]) -> Change:
    assert len(changes) == 1
    return changes[0]


def test_a_new_topic_is_created_with_the_source_s_partitions_and_own_configs() -> None:
    seen = observed(
        {"orders": 4},
        source_configs={
            "orders": entries({"retention.ms": "1000", "min.insync.replicas": "2"}),
        },
    )

    planned = plan(seen, filtered_link(replication_factor=3))

    created = only(planned.changes)
    assert isinstance(created, CreateTopic)
    assert (created.topic, created.partitions, created.replication_factor) == ("A.orders", 4, 3)
    assert dict(created.configs) == {"retention.ms": "1000", "message.timestamp.after.max.ms": WIDE}
    (mirrored,) = planned.mirrored
    assert (mirrored.source, mirrored.target) == ("orders", "A.orders")
    assert (mirrored.partitions, mirrored.target_partitions, mirrored.target_id) == (4, 4, None)


def test_read_only_sensitive_and_static_broker_values_are_not_copied() -> None:
    configs = {
        "plain": entry("1"),
        "fixed": entry("1", read_only=True),
        "hidden": entry(None, sensitive=True),
        "server": entry("1", "STATIC_BROKER_CONFIG"),
        "usual": entry("1", "DEFAULT_CONFIG"),
    }
    seen = observed({"t": 1}, source_configs={"t": configs}, target_defaults={})

    names = {
        use: {
            name for name, _ in _created(plan(seen, filtered_link(use_defaults_from=use))).configs
        }
        for use in ("target", "source")
    }

    assert names["target"] & configs.keys() == {"plain"}
    assert names["source"] & configs.keys() == {"plain", "usual"}


def test_the_mirror_takes_the_largest_batch_that_topic_or_broker_allows() -> None:
    for configs in (
        entries({"max.message.bytes": "5000000"}),
        entries(max_message_bytes="5000000"),
    ):
        seen = observed({"t": 1}, source_configs={"t": configs})

        planned = plan(seen, filtered_link())

        assert dict(_created(planned).configs)["max.message.bytes"] == "5000000"
        assert planned.mirrored[0].max_message_bytes == 5_000_000


def test_a_larger_limit_on_the_target_stays() -> None:
    seen = observed(
        {"t": 1},
        {"A.t": 1},
        target_configs={
            "A.t": entries({"max.message.bytes": "9000000", "message.timestamp.after.max.ms": WIDE})
        },
    )

    planned = plan(seen, filtered_link())

    assert planned.changes == ()
    assert planned.mirrored[0].max_message_bytes == 9_000_000
    assert planned.mirrored[0].target_id is not None


def test_of_an_existing_topic_only_the_needed_limits_are_altered() -> None:
    seen = observed(
        {"t": 1},
        {"A.t": 1},
        source_configs={"t": entries({"retention.ms": "5", "max.message.bytes": "2000000"})},
        target_configs={
            "A.t": entries({"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
        },
    )

    altered = only(plan(seen, filtered_link()).changes)

    assert altered == AlterTopicConfigs(
        topic="A.t",
        configs=(
            ("compression.type", "producer"),
            ("max.message.bytes", "2000000"),
            ("message.timestamp.after.max.ms", WIDE),
            ("message.timestamp.type", "CreateTime"),
        ),
    )


def test_how_a_shared_topic_keeps_records_is_left_to_its_owners_and_said() -> None:
    seen = observed(
        {"t": 1},
        {"A.t": 1},
        source_configs={"t": entries({"max.message.bytes": "2000000"})},
        target_configs={
            "A.t": entries({"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
        },
    )

    planned = plan(seen, filtered_link(sole_writer=False))

    assert dict(only(planned.changes).configs) == {  # type: ignore[union-attr]
        "max.message.bytes": "2000000",
        "message.timestamp.after.max.ms": WIDE,
    }
    assert [note.partition(":")[0] for note in planned.mirrored[0].notes] == [
        "message.timestamp.type=LogAppendTime stays, since others may write to it",
        "compression.type=gzip stays, since others may write to it",
    ]
    assert "a batch that is too large then is sent in smaller ones" in planned.mirrored[0].notes[1]


def test_limits_of_a_shared_topic_that_are_excluded_stay_and_this_is_said() -> None:
    seen = observed(
        {"t": 1},
        {"A.t": 1},
        source_configs={"t": entries({"max.message.bytes": "2000000"})},
        target_configs={"A.t": entries({"max.message.bytes": "1000"})},
    )
    excluded = r"max\.message\.bytes, message\.timestamp\..*"

    planned = plan(seen, filtered_link(sole_writer=False, config_properties_exclude=excluded))

    assert planned.changes == ()
    (mirrored,) = planned.mirrored
    assert mirrored.max_message_bytes == 1000
    assert mirrored.notes[0].startswith(
        "max.message.bytes=1000 stays, since config.properties.exclude names it"
    )
    assert len(mirrored.notes) == 2


def test_the_same_codec_on_both_sides_needs_no_change() -> None:
    own = {"compression.type": "zstd", "message.timestamp.after.max.ms": WIDE}
    seen = observed(
        {"t": 1},
        {"A.t": 1},
        source_configs={"t": entries(own)},
        target_configs={"A.t": entries(own)},
    )

    assert plan(seen, filtered_link()).changes == ()


def test_a_target_before_kafka_3_6_gets_its_own_name_of_the_timestamp_limit() -> None:
    old = {
        name: value
        for name, value in DEFAULTS.items()
        if not name.startswith("message.timestamp.") or name == "message.timestamp.type"
    } | {"message.timestamp.difference.max.ms": "1000"}
    seen = observed({"t": 1}, target_defaults=old)

    configs = dict(_created(plan(seen, filtered_link())).configs)

    assert configs == {"message.timestamp.difference.max.ms": WIDE}


def test_without_a_look_at_the_target_s_brokers_every_limit_is_set() -> None:
    seen = observed({"t": 1}, target_defaults={})

    assert set(dict(_created(plan(seen, filtered_link())).configs)) == {
        "compression.type",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
    }


def test_of_two_timestamp_limits_the_one_that_the_target_knows_is_set() -> None:
    old = frozenset({"message.timestamp.difference.max.ms", "message.timestamp.type"})
    seen = observed({"t": 1}, target_defaults={}, target_names=old)

    configs = dict(_created(plan(seen, filtered_link())).configs)

    assert {name for name in configs if "timestamp" in name} == old


def test_a_config_that_the_target_does_not_know_is_left_out_and_said() -> None:
    own = entries({"retention.ms": "1", "compression.gzip.level": "3"})
    seen = observed(
        {"t": 1},
        source_configs={"t": own | {"flush.ms": entry("9", "DEFAULT_CONFIG")}},
        target_names=frozenset({"retention.ms", *DEFAULTS}),
    )

    for defaults_from in ("source", "target"):
        planned = plan(seen, filtered_link(use_defaults_from=defaults_from))
        configs = dict(_created(planned).configs)
        assert configs["retention.ms"] == "1"
        assert not {"compression.gzip.level", "flush.ms"} & configs.keys()
        told = "compression.gzip.level=3 of the source is left out: B has no such config"
        assert planned.mirrored[0].notes == (told,)


@pytest.mark.parametrize(
    ("default", "wanted"),
    [("0.10.2-IV0", "2.8"), ("0.9.0.X", "2.8"), ("0.11.0", None), ("2.8-IV1", None), ("3.0", None)],
)
def test_a_mirror_has_the_format_with_producers_for_every_source_format(
    default: str, wanted: str | None
) -> None:
    seen = observed(
        {"t": 1},
        source_configs={"t": entries({"message.format.version": "0.9.0"})},
        target_defaults={**DEFAULTS, "message.format.version": default},
    )
    assert (
        dict(_created(plan(seen, filtered_link())).configs).get("message.format.version") == wanted
    )

    there = observed(
        {"t": 1},
        {"A.t": 1},
        target_configs={"A.t": entries({"message.format.version": default})},
    )
    (change,) = plan(there, filtered_link()).changes
    assert isinstance(change, AlterTopicConfigs)
    assert dict(change.configs).get("message.format.version") == wanted


@pytest.mark.parametrize(
    ("source", "target", "partitioning", "grown", "after"),
    [
        (6, 4, "same", 6, 6),
        (4, 6, "same", None, 6),
        (4, 4, "same", None, 4),
        (6, 4, "by-key", None, 4),
    ],
)
def test_partitions_only_grow_and_never_where_keys_decide(
    source: int, target: int, partitioning: str, grown: int | None, after: int
) -> None:
    wide = {"A.t": entries({"message.timestamp.after.max.ms": WIDE})}
    seen = observed({"t": source}, {"A.t": target}, target_configs=wide)

    planned = plan(seen, filtered_link(partitioning=partitioning))

    expected = () if grown is None else (GrowTopic(topic="A.t", partitions=grown, before=target),)
    assert planned.changes == expected
    assert planned.mirrored[0].partitions == source
    assert planned.mirrored[0].target_partitions == after


def test_too_few_brokers_say_how_many_are_there_and_what_to_set() -> None:
    planned = plan(observed({"t": 1}, target_brokers=1), filtered_link(replication_factor=2))

    assert (planned.mirrored, planned.changes) == ((), ())
    assert str(planned.problems[0].error) == (
        "create topic A.t on B: needs 2 brokers, B has 1 "
        "(set replication.factor to 1 or less, or start more brokers)"
    )


def test_the_broker_s_own_replication_factor_needs_no_count() -> None:
    planned = plan(observed({"t": 1}), filtered_link(replication_factor=-1))

    assert _created(planned).replication_factor == -1


def test_topics_left_out_say_why() -> None:
    planned = plan(
        observed({"secret-1": 1, "__consumer_offsets": 1, "B.x": 1, "t": 1}), filtered_link()
    )

    assert {left.topic: left.code for left in planned.left_out} == {
        "secret-1": "excluded",
        "__consumer_offsets": "internal",
        "B.x": "cycle",
    }
    assert all(left.reason for left in planned.left_out)
    assert [topic.source for topic in planned.mirrored] == ["t"]


def test_a_topic_in_error_leaves_the_others_alone() -> None:
    denied = AuthorizationError("describe topic", "bad", "Describe on topic bad is denied")
    seen = observed({"good": 1})
    seen = replace(seen, source_topics={**seen.source_topics, "bad": topic("bad", 0, denied)})

    planned = plan(seen, filtered_link())

    assert [topic.source for topic in planned.mirrored] == ["good"]
    assert [(problem.topic, problem.error) for problem in planned.problems] == [("bad", denied)]


def test_unreadable_configs_are_a_problem_but_the_topic_is_mirrored() -> None:
    denied = AuthorizationError("describe configs", "t", "DescribeConfigs on topic t is denied")
    for seen in (
        observed({"t": 1}, source_configs={"t": denied}),
        observed({"t": 1}, {"A.t": 1}, target_configs={"A.t": denied}),
    ):
        planned = plan(seen, filtered_link())

        assert [topic.target for topic in planned.mirrored] == ["A.t"]
        assert [problem.error for problem in planned.problems] == [denied]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_topic_without_an_id_is_refused(side: str) -> None:
    """One that is deleted and made anew could not be told from the old one."""
    seen = observed({"t": 1, "u": 1}, {"A.t": 1})
    if side == "source":
        where = "t on A"
        nameless = {"t": replace(topic("t"), topic_id=NO_TOPIC_ID)}
        seen = replace(seen, source_topics={**seen.source_topics, **nameless})
    else:
        where = "A.t on B"
        seen = replace(seen, target_topics={"A.t": replace(topic("A.t"), topic_id=NO_TOPIC_ID)})
    planned = plan(seen, filtered_link())

    assert [each.source for each in planned.mirrored] == ["u"]
    (problem,) = planned.problems
    assert problem.topic == "t"
    assert f"{where}: it has no topic id" in str(problem.error)


class FakeCluster:
    """Answers as told, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, CausewayError] | CausewayError) -> None:
        self._answers = answers
        self.calls: list[list[str]] = []

    def create_topics(
        self, new: list[NewTopic], validate_only: bool
    ) -> dict[str, CausewayError | None]:
        return self._answer([each.name for each in new])

    def create_partitions(self, counts: dict[str, int]) -> dict[str, CausewayError | None]:
        return self._answer(list(counts))

    def alter_configs(self, configs: dict[str, Any]) -> dict[str, CausewayError | None]:
        return self._answer(list(configs))

    def _answer(self, names: list[str]) -> dict[str, CausewayError | None]:
        self.calls.append(names)
        if isinstance(self._answers, CausewayError):
            raise self._answers
        return {name: self._answers.get(name) for name in names}


def create(name: str, partitions: int = 1) -> CreateTopic:
    return CreateTopic(topic=name, partitions=partitions, replication_factor=1, configs=())


def apply_to(fake: FakeCluster, *changes: Change) -> dict[Change, CausewayError | None]:
    return apply(changes, fake)  # type: ignore[arg-type]


def test_a_target_whose_topics_have_no_ids_gets_no_new_ones() -> None:
    planned = plan(observed({"t": 1}, target_without_ids=True), filtered_link())

    assert planned.changes == ()
    assert "A.t on B: it has no topic id (set inter.broker.protocol.version" in str(
        planned.problems[0].error
    )


def test_apply_answers_for_each_change() -> None:
    exists = BrokerError("create topic", "a", code=36, name="TOPIC_ALREADY_EXISTS")
    denied = AuthorizationError("create topic", "b", "Create on topic b is denied")
    grow = GrowTopic(topic="c", partitions=2, before=1)
    alter = AlterTopicConfigs(topic="d", configs=(("x", "1"),))

    done = apply_to(FakeCluster({"a": exists, "b": denied}), create("a"), create("b"), grow, alter)

    assert done == {create("a"): None, create("b"): denied, grow: None, alter: None}


def test_a_request_that_fails_as_a_whole_is_the_error_of_each_of_its_changes() -> None:
    broken = CausewayError("create topics", "on B", "no answer", retriable=True)

    assert apply_to(FakeCluster(broken), create("a"), create("b")) == {
        create("a"): broken,
        create("b"): broken,
    }


def _created(planned: Any) -> CreateTopic:
    created = only(planned.changes)
    assert isinstance(created, CreateTopic)
    return created
