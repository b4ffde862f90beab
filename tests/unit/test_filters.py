from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.errors import ConfigError
from causeway.filters import (
    TopicDecision,
    TopicRules,
    Verdict,
    compile_mm1_include,
    compile_patterns,
    decide_topic,
    split_list,
)
from causeway.naming import ReplicationPolicy
from causeway.renames import parse

DEFAULT_EXCLUDES = r"mm2.*\.internal, .*\.replica, __.*"


def decide(
    name: str,
    topics: str = ".*",
    exclude: str = DEFAULT_EXCLUDES,
    policy: ReplicationPolicy | None = None,
    heartbeats: bool = True,
) -> TopicDecision:
    rules = TopicRules(
        source="A",
        target="B",
        policy=policy or ReplicationPolicy(source_alias="A"),
        topics=compile_patterns(topics),
        topics_exclude=compile_patterns(exclude),
        heartbeats_replication_enabled=heartbeats,
    )
    return decide_topic(name, rules)


def test_lists_are_split_as_kafka_splits_them() -> None:
    assert split_list(" a ,b,\tc d ,, e ") == ("a", "b", "c d", "e")
    assert split_list("  ") == ()


def test_a_blank_list_matches_nothing() -> None:
    assert compile_patterns("") == ()
    assert decide("orders", topics="").verdict is Verdict.NOT_INCLUDED


def test_a_comma_always_ends_a_pattern() -> None:
    with pytest.raises(ConfigError, match="a comma ends a pattern"):
        compile_patterns("a{1,2}")


def test_a_flag_holds_for_the_patterns_after_it() -> None:
    patterns = compile_patterns("a, (?i)b, c")
    assert [pattern.pattern for pattern in patterns] == ["a", "(?i)b", "c"]
    assert [pattern.matches("C") for pattern in patterns] == [False, False, True]
    assert compile_patterns("c")[0].matches("C") is False


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("orders", Verdict.MIRRORED, "matched by topics"),
        ("xorders", Verdict.NOT_INCLUDED, "not matched by topics"),
        ("orders.replica", Verdict.EXCLUDED, r"excluded by topics.exclude pattern .*\.replica"),
        ("__consumer_offsets", Verdict.EXCLUDED, "excluded by topics.exclude pattern __.*"),
        ("A.heartbeats", Verdict.MIRRORED, "a heartbeats topic"),
        ("heartbeats", Verdict.MIRRORED, "a heartbeats topic"),
    ],
)
def test_reasons(name: str, verdict: Verdict, reason: str) -> None:
    decision = decide(name, topics="orders.*")
    assert (decision.verdict, decision.reason) == (verdict, reason)
    assert decision.target_name == (f"A.{name}" if decision.mirrored else None)


def test_internal_topics_stay_even_where_no_pattern_excludes_them() -> None:
    for name in ("__consumer_offsets", "mm2-configs.A.internal", "A.checkpoints.internal", ".x"):
        decision = decide(name, exclude="")
        assert decision.verdict is Verdict.INTERNAL
        assert decision.reason == "an internal topic of Kafka, Connect or a mirror"


def test_what_only_kafka_3_takes_for_internal_is_mirrored_unless_its_rule_is_asked_for() -> None:
    old = ReplicationPolicy(source_alias="A", internal_topics="kafka-3")
    for name in ("orders.internal", "orders-internal", "mm2-orders-internal"):
        assert decide(name).mirrored
        decision = decide(name, policy=old)
        assert decision.verdict is Verdict.INTERNAL
        assert "causeway.internal.topics = kafka-3" in decision.reason


def test_cycles_say_where_the_topic_came_from() -> None:
    decision = decide("C.B.orders")
    assert decision.verdict is Verdict.CYCLE
    assert "came from B (as orders)" in decision.reason


def test_a_local_topic_that_looks_mirrored_is_left_out_as_mirror_maker_does() -> None:
    assert decide("B.x").verdict is Verdict.CYCLE


def test_heartbeats_without_replication_need_the_filter() -> None:
    decision = decide("heartbeats", topics="orders", heartbeats=False)
    assert decision.verdict is Verdict.HEARTBEATS_OFF
    assert "heartbeats.replication.enabled" in decision.reason
    assert decide("heartbeats", heartbeats=False).target_name == "A.heartbeats"


def test_identity_keeps_names_but_for_heartbeats() -> None:
    policy = ReplicationPolicy(kind="identity", source_alias="A")
    assert decide("orders", policy=policy).target_name == "orders"
    assert decide("B.orders", policy=policy).target_name == "B.orders"
    assert decide("heartbeats", policy=policy).target_name == "A.heartbeats"
    assert decide("B.heartbeats", policy=policy).verdict is Verdict.CYCLE


def test_names_longer_than_kafka_allows() -> None:
    decision = decide("x" * 248)
    assert decision.verdict is Verdict.NAME_TOO_LONG
    assert "250 characters" in decision.reason
    assert decide("x" * 247).mirrored


@pytest.mark.parametrize(
    ("include", "pattern"),
    [
        ("a,b", "a|b"),
        ("a, b|c", "a|b|c"),
        ("*", ".*"),
        ("'*'", ".*"),
        (".*", ".*"),
        ('"a.*"', "a.*"),
        ("a,", "a"),
    ],
)
def test_mirror_maker_1_patterns(include: str, pattern: str) -> None:
    assert [found.pattern for found in compile_mm1_include(include)] == [pattern]


@pytest.mark.parametrize("include", ["", " ", "''", ",", "(", "*a"])
def test_mirror_maker_1_patterns_that_are_refused(include: str) -> None:
    with pytest.raises(ConfigError):
        compile_mm1_include(include)


names = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)


@given(name=names, selected=st.lists(names, max_size=4), left_out=st.lists(names, max_size=4))
def test_literal_lists_decide_by_membership_and_excludes_win(
    name: str, selected: list[str], left_out: list[str]
) -> None:
    decision = decide(
        name,
        topics=",".join(re.escape(item) for item in selected),
        exclude=",".join(re.escape(item) for item in left_out),
    )
    if decision.mirrored and not decision.reason.startswith("a heartbeats"):
        assert name in selected
        assert name not in left_out
    if name in left_out and not ReplicationPolicy().is_heartbeats_topic(name):
        assert decision.verdict is Verdict.EXCLUDED


@given(name=names)
def test_exactly_the_mirrored_have_a_target_name(name: str) -> None:
    decision = decide(name)
    assert (decision.verdict is Verdict.MIRRORED) == decision.mirrored
    assert decision.reason


@pytest.mark.parametrize(
    ("topics", "exclude"), [(r"(?!_)(a|aa)+\.", ""), (".*", r"(?!_)(a|aa)+\.")]
)
def test_a_name_that_a_pattern_takes_too_long_for_is_left_out_with_the_reason(
    topics: str, exclude: str
) -> None:
    decision = decide("a" * 200, topics=topics, exclude=exclude)
    assert decision.verdict is Verdict.UNDECIDED
    assert f"{'topics.exclude' if exclude else 'topics'} pattern (?!_)" in decision.reason
    assert decide("aa.", topics=topics, exclude=exclude).mirrored is bool(topics != ".*")


def test_a_decision_names_the_key_and_the_pattern_that_made_it() -> None:
    assert decide("orders", topics="bills, or.*").rule == ("topics", "or.*")
    assert decide("orders", topics="bills").rule == ("topics", None)
    assert decide("a.replica").rule == ("topics.exclude", r".*\.replica")
    assert decide("heartbeats", topics="bills").rule == ("heartbeats.replication.enabled", None)
    assert decide("x.internal", policy=ReplicationPolicy(internal_topics="kafka-3")).rule == (
        "causeway.internal.topics",
        None,
    )
    assert decide("__x", exclude="").rule is None, "no key of the file decides"


def test_what_people_chose_counts_as_named_and_what_is_left_out_stays_so() -> None:
    def decide_chosen(name: str, exclude: str = DEFAULT_EXCLUDES) -> TopicDecision:
        rules = TopicRules(
            source="A",
            target="B",
            policy=ReplicationPolicy(source_alias="A"),
            topics=(),
            topics_exclude=compile_patterns(exclude),
        )
        return decide_topic(name, rules, chosen={name})

    found = decide_chosen("orders")
    assert (found.target_name, found.reason) == ("A.orders", "chosen with `causeway geo`")
    assert decide("orders", topics="").verdict is Verdict.NOT_INCLUDED
    assert decide_chosen("orders", "ord.*").verdict is Verdict.EXCLUDED
    assert decide_chosen("__consumer_offsets", "").verdict is Verdict.INTERNAL
    assert decide_chosen("B.orders").verdict is Verdict.CYCLE


def renamed(name: str, rules: str) -> TopicDecision:
    return decide(name, policy=ReplicationPolicy(source_alias="A", renames=parse(rules)))


def test_a_rule_names_what_it_matches_and_the_policy_the_rest() -> None:
    rules = r"orders\.(.*) => sales.$1; orders.* => other"
    decision = renamed("orders.eu", rules)
    assert decision.target_name == "sales.eu"
    assert decision.renamed == r"orders\.(.*) => sales.$1"
    assert renamed("orders", rules).target_name == "other"
    assert renamed("payments", rules).target_name == "A.payments"
    assert renamed("payments", rules).renamed is None


def test_heartbeats_keep_the_names_that_others_look_for() -> None:
    assert renamed("heartbeats", "(.*) => x.$1").target_name == "A.heartbeats"


@pytest.mark.parametrize(
    "made", ["__x$1", "mm2-offset-syncs.$1.internal", "heartbeats", "C.heartbeats", ".", ".."]
)
def test_a_rule_cannot_make_names_of_what_is_never_mirrored(made: str) -> None:
    decision = renamed("orders", f"(.*) => {made}")
    assert decision.verdict is Verdict.NAME_UNFIT
    assert decision.target_name is None
    assert decision.rule is not None
    assert decision.rule.key == "causeway.rename"


def test_a_rule_can_make_no_empty_and_no_endless_name() -> None:
    assert renamed("orders", "orders(.*) => $1").verdict is Verdict.NAME_UNFIT
    assert renamed("x" * 200, "(.*) => $1$1").verdict is Verdict.NAME_TOO_LONG
