from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from causeway.errors import ConfigError
from causeway.filters import (
    TopicRules,
    Verdict,
    compile_patterns,
    decide_topic,
)
from causeway.naming import ReplicationPolicy
from causeway.renames import Rename, parse
from tests.harness.examples import examples

names = st.text("ab.-1", min_size=1, max_size=12)
PATTERNS = (
    r"(.*)",
    r"a(.*)",
    r"(.*)-b",
    r"a\.(.*)\.b",
    r"(.*?)-(.*)",
    r"(a|ab)(.*)",
    r"[ab](.*)",
    r"(\w+)(-\d)?.*",
    r"(?i)A(.*)",
    r"(?:a|(b))+(.*)",
    r"(a(b)?)(.*)",
    r"(?<head>.)(.*)(?=b)b",
    r"(\b.*)1",
)
rules = st.tuples(
    st.sampled_from(PATTERNS),
    st.lists(st.sampled_from(["$1", "$1", "x", "-", "$0"]), min_size=1, max_size=4),
).map(lambda rule: f"{rule[0]} => {''.join(rule[1])}")


def one(rule: str) -> Rename:
    (only,) = parse(rule)
    return only


@pytest.mark.parametrize(
    ("rule", "name", "made"),
    [
        (r"orders\.(.*) => sales.$1", "orders.eu", "sales.eu"),
        (r"orders => purchases", "orders", "purchases"),
        (r"orders => purchases", "orders2", None),
        (r"(.*)-(\d{2,4}) => y$2.$1", "log-2024", "y2024.log"),
        (r"(a)(b)?c => $1_$2", "ac", "a_"),
        (r".* => all.$0", "x", "all.x"),
        (r"(x) => $12", "x", "x2"),
        (r"(a|ab)(c|bcd)?(d*) => $1-$2-$3", "abcd", "a-bcd-"),  # the first way, not the longest
        (r"(?<team>\w+)-(?!old).* => $1", "red-new", "red"),
        (r"(?<team>\w+)-(?!old).* => $1", "red-old", None),
    ],
)
def test_what_a_rule_makes(rule: str, name: str, made: str | None) -> None:
    assert one(rule).apply(name) == made


def test_rules_are_separated_by_lines_or_semicolons() -> None:
    assert [each.rule for each in parse("a => b; c{1,2} => d\n  (e)=>$1 ;\n")] == [
        "a => b",
        "c{1,2} => d",
        "(e)=>$1",
    ]
    assert parse("") == ()


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        ("orders", "a rule is written `pattern => name`"),
        ("=> x", "a rule is written `pattern => name`"),
        ("x =>", "a rule is written `pattern => name`"),
        ("a => b c => d", "end each rule with ';' or a line's end"),
        ("a => $1", "'$1' is not one of the pattern's 0 groups"),
        ("(a) => $x", "'$' is not one of the pattern's 1 groups"),
        ("(a) => b/$1", "'b/' cannot be in a topic's name"),
        ("(a => b", "a '(' is not closed"),
    ],
)
def test_a_rule_that_cannot_be_used_says_why(rule: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(cause)):
        parse(f"x => y; {rule}")


@pytest.mark.parametrize(
    ("rule", "origin"),
    [
        (r"orders\.(.*) => sales.$1", "orders.eu"),
        (r"\Qorders.\E(.+) => sales.$1", "orders.eu"),
        (r"orders\.eu => sales.eu", "orders.eu"),
        (r"orders\.(.*) => sales.$1.$1", None),  # more than one place may end the group
        (r"orders\.(.*)[12] => sales.$1", None),
        (r"(\w+)\.(\w+) => sales.$2", None),
    ],
)
def test_where_a_name_came_from(rule: str, origin: str | None) -> None:
    assert one(rule).origin("sales.eu") == origin
    assert one(rule).origin("orders.eu") is None


@given(rule=rules, name=names)
def test_what_a_rule_makes_it_knows_for_its_own(rule: str, name: str) -> None:
    rename = one(rule)
    made = rename.apply(name)
    if made is not None:
        assert rename.made(made)
        assert rename.origin(made) == (None if rename.exact is None else name)


@given(rule=rules, name=names)
def test_an_origin_is_one_indeed(rule: str, name: str) -> None:
    rename = one(rule)
    origin = rename.origin(name)
    assert origin is None or rename.apply(origin) == name


def test_a_pattern_without_an_answer_in_time_leaves_the_topic_out() -> None:
    policy = ReplicationPolicy(renames=parse(r"(?!x)(a|aa)+\. => x"))
    rules = TopicRules(
        source="A",
        target="B",
        policy=policy,
        topics=compile_patterns(".*"),
        topics_exclude=(),
    )
    decision = decide_topic("a" * 248, rules)
    assert decision.verdict is Verdict.UNDECIDED
    assert "takes too long" in decision.reason


# -- loops: clusters, flows between them with rules, and all topics that come of it ----------------

FLOW_RULES = (
    "",
    "(.*) => $1",
    r"x(.*) => $1",
    r"(.*) => x$1",
    r"a => b",
    r"b => a",
    r"b(.*) => A.$1",
    r"A\.(.*) => $1",
    r"(.*)-(.*) => $2-$1",
    r"[ab](.*) => $1",
)


def flow(source: str, target: str, text: str, topics: str = ".*") -> TopicRules:
    return TopicRules(
        source=source,
        target=target,
        policy=ReplicationPolicy(source_alias=source, renames=parse(text)),
        topics=compile_patterns(topics),
        topics_exclude=(),
    )


@settings(max_examples=examples(150), deadline=None)
@given(
    chosen=st.dictionaries(
        st.sampled_from(["AB", "BA", "BC", "CB"]), st.sampled_from(FLOW_RULES), min_size=2
    ),
    start=st.sampled_from(["a", "b", "xa", "a-b", "A.a", "ba"]),
)
def test_no_topic_comes_back_to_a_cluster_that_it_was_on(
    chosen: dict[str, str], start: str
) -> None:
    """Names end where they come from, whatever rules flows to and fro have. There are no long ways
    round here: the file's check refuses those that rules hide."""
    flows = [flow(way[0], way[1], text) for way, text in chosen.items()]
    ways = [[("A", start)]]
    for way in ways:
        at, name = way[-1]
        for each in flows:
            if each.source != at:
                continue
            rules = TopicRules(
                source=at,
                target=each.target,
                policy=each.policy,
                topics=each.topics,
                topics_exclude=(),
                renaming=tuple(flow for flow in flows if flow.policy.renames),
            )
            decision = decide_topic(name, rules)
            if decision.target_name is not None:
                assert each.target not in [cluster for cluster, _ in way], (way, decision)
                ways.append([*way, (each.target, decision.target_name)])


def test_what_was_renamed_is_known_on_its_way_round() -> None:
    there = flow("A", "B", r"orders\.(.*) => sales.$1", topics=r"orders\..*")

    assert known("B.sales.eu", "C", there) == "orders.eu"
    assert known("B.purchases.eu", "C", there) is None


def known(name: str, at: str, there: TopicRules) -> str | None:
    """What A called `name` of cluster `at`, if it came from there."""
    rules = TopicRules(source=at, target="A", policy=ReplicationPolicy(), renaming=(there,))
    return rules.cycle_source(name)


def test_a_rule_claims_no_name_of_which_its_flow_mirrors_no_origin() -> None:
    there = flow("A", "B", "(.*) => $1", topics="orders")

    assert known("orders", "B", there) == "orders"
    assert known("payments", "B", there) is None
    geo = replace(there, geo=True)
    assert known("payments", "B", geo) == "payments", "it may have been chosen before"
