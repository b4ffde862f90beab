"""Why a topic is mirrored or not, from the file and what is known of it; no broker is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.config import LinkSettings
from causeway.errors import AuthorizationError
from causeway.formats import load
from causeway.link_topics import LinkDirectives, PauseDirective, Scope, ThrottleDirective
from causeway.model import State
from causeway.operate.explain import Explanation, TopicFacts, as_json_of, explain_topic
from causeway.status import NO_DRIVER, PartitionStatus
from tests.harness.statuses import replace

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders, pay.*
A->B.topics.exclude = pay-tmp.*, (?=x)(x+)+y
"""
THERE = TopicFacts(there=True)


def of(tmp_path: Path, more: str = "", text: str = FILE) -> tuple[LinkSettings, ...]:
    file = tmp_path / "mm2.properties"
    file.write_text(text + more)
    return load(file).links


def explain(
    tmp_path: Path, topic: str, facts: TopicFacts = THERE, more: str = "", **given: Any
) -> Explanation:
    links = of(tmp_path, more)
    return explain_topic(links[0], topic, facts, links=links, **given)


def told(one: Explanation, about: str) -> list[str]:
    return [fact.text for fact in one.facts if fact.about == about]


def running(number: int = 0, **more: Any) -> PartitionStatus:
    given: dict[str, Any] = {
        "topic": "orders",
        "target_topic": "A.orders",
        "partition": number,
        "state": State.RUNNING,
        **more,
    }
    return PartitionStatus(**given)


def test_a_topic_that_is_mirrored_names_the_pattern_and_its_line(tmp_path: Path) -> None:
    one = explain(tmp_path, "orders", replace(THERE, partitions=(running(), running(1))))

    assert (one.code, one.done, one.target) == ("running", True, "A.orders")
    assert str(one.rule) == "A->B.topics (line 5), pattern orders"
    assert one.answer == "goes to A.orders: 2 running"
    assert told(one, "state") == ["partitions 0, 1 running"]
    assert told(one, "name") == ["A.orders (alias A, separator '.')"]
    assert not one.to_do


@pytest.mark.parametrize(
    ("topic", "more", "code", "rule", "to_do"),
    [
        ("bills", "", "not-included", "A->B.topics (line 5)", "add it to A->B.topics (line 5)"),
        (
            "pay-tmp-1",
            "",
            "excluded",
            "A->B.topics.exclude (line 6), pattern pay-tmp.*",
            "take that pattern out of A->B.topics.exclude (line 6)",
        ),
        ("__consumer_offsets", "A->B.topics = .*\n", "internal", None, "never mirrored"),
        (
            "team.internal",
            "A->B.topics = .*\ncauseway.internal.topics = kafka-3\n",
            "internal",
            "causeway.internal.topics (line 8)",
            "set causeway.internal.topics = kafka-4",
        ),
        ("B.orders", "A->B.topics = .*\n", "cycle", None, "B has the records already"),
        (
            "heartbeats",
            "heartbeats.replication.enabled = false\n",
            "heartbeats-off",
            "heartbeats.replication.enabled (line 7)",
            "set heartbeats.replication.enabled = true",
        ),
        ("x" * 248, "A->B.topics = .*\n", "name-too-long", None, "a shorter alias"),
    ],
)
def test_a_topic_that_the_file_leaves_out(
    tmp_path: Path, topic: str, more: str, code: str, rule: str | None, to_do: str
) -> None:
    one = explain(tmp_path, topic, more=more)

    assert (one.code, one.done, one.target) == (code, False, None)
    assert (None if one.rule is None else str(one.rule).split(", pattern")[0]) == (
        None if rule is None else rule.split(", pattern")[0]
    )
    assert rule is None or str(one.rule).startswith(rule)
    assert to_do in "; ".join(one.to_do)


def test_a_default_is_called_a_default(tmp_path: Path) -> None:
    text = FILE.replace("A->B.topics.exclude", "#")
    link = of(tmp_path, "A->B.topics = .*\n", text)[0]

    one = explain_topic(link, "old.replica", THERE)

    assert str(one.rule) == r"the default of topics.exclude, pattern .*\.replica"
    assert "set topics.exclude without that pattern" in one.to_do[0]


def test_a_pattern_that_nearly_fits_is_reported(tmp_path: Path) -> None:
    assert "orders matches only a part of the name" in " ".join(
        explain(tmp_path, "orders-eu").to_do
    )
    assert "orders would match if upper and lower case were equal" in " ".join(
        explain(tmp_path, "Orders").to_do
    )


@pytest.mark.parametrize(
    ("facts", "code", "done", "answer"),
    [
        (TopicFacts(there=False), "missing", False, "A has no such topic"),
        (TopicFacts(), "unknown", None, "its state is not known"),
        (THERE, "planned", False, "looks for topics every 600 s"),
        (replace(THERE, hidden="no DESCRIBE"), "not-allowed", False, "no DESCRIBE"),
        (replace(THERE, problems=("collides",)), "problem", False, "collides"),
        (
            TopicFacts(there=False, partitions=(running(gone_ms=5),)),
            "deleted",
            False,
            "A no longer has it",
        ),
        (TopicFacts(there=False, partitions=(running(),)), "deleted", False, "no longer has it"),
        (
            replace(THERE, partitions=(running(), running(1, state=NO_DRIVER))),
            NO_DRIVER,
            False,
            "1 running, 1 no running driver",
        ),
        (replace(THERE, partitions=(running(state="promoted"),)), "promoted", False, "1 promoted"),
    ],
)
def test_the_answer_follows_the_facts_of_both_clusters(
    tmp_path: Path, facts: TopicFacts, code: str, done: bool | None, answer: str
) -> None:
    one = explain(tmp_path, "orders", facts)

    assert (one.code, one.done) == (code, done)
    assert answer in one.answer


def test_a_stopped_partition_says_since_when_and_what_to_do(tmp_path: Path) -> None:
    stopped = running(1, state=State.STOPPED, reason="the source was truncated", noted_ms=60_000)

    one = explain(tmp_path, "orders", replace(THERE, partitions=(running(), stopped)))

    assert (one.code, one.since_ms) == ("stopped", 60_000)
    assert told(one, "state")[1] == (
        "partition 1 stopped (noted 1970-01-01T00:01:00Z): the source was truncated"
    )
    assert "causeway restart FILE --link 'A->B' --topic orders" in one.to_do[-1]
    assert (
        explain(
            tmp_path, "orders", partition=0, facts=replace(THERE, partitions=(running(), stopped))
        ).code
        == "running"
    )


def test_a_paused_topic_is_shown_with_its_author_and_how_to_resume(tmp_path: Path) -> None:
    anna = PauseDirective(who="anna@ops", why="disks", at=1000)
    slow = ThrottleDirective(scope=Scope("orders"), who="bob", at=1, bytes_per_s=5000)
    other = PauseDirective(scope=Scope("bills"), who="eve", at=1)
    directives = LinkDirectives({each.key: each for each in (anna, slow, other)})
    facts = replace(THERE, directives=directives, partitions=(running(state=State.PAUSED),))

    one = explain(tmp_path, "orders", facts)

    assert (one.code, one.since_ms) == ("paused", 1000)
    assert told(one, "paused") == ["the link by anna@ops since 1970-01-01T00:00:01Z: disks"]
    assert told(one, "throttled") == ["orders to 5,000 bytes/s by bob since 1970-01-01T00:00:00Z"]
    assert one.to_do == ("causeway resume FILE --link 'A->B'",)


def test_the_transform_that_applies_and_the_other_flow_to_that_name(tmp_path: Path) -> None:
    more = """\
A->B.causeway.transforms = mask, drop
A->B.causeway.transform.mask.topics = or.*
A->B.causeway.transform.mask.value.format = json
A->B.causeway.transform.mask.rules = mask value.$.card
A->B.causeway.transform.drop.topics = .*
A->B.causeway.transform.drop.value.format = json
A->B.causeway.transform.drop.rules = drop value.$.card
clusters = A, B, C
C.bootstrap.servers = c:1
C->B.enabled = true
replication.policy.class = IdentityReplicationPolicy
"""
    one = explain(tmp_path, "orders", more=more)

    assert told(one, "transform") == [
        "mask (rules, A->B.causeway.transform.mask.rules (line 10)), by its topics pattern or.*;"
        " drop also matches, but comes later"
    ]
    assert told(one, "same name") == ["C->B also writes to orders, if C has orders"]


def test_an_explanation_is_plain_json(tmp_path: Path) -> None:
    found = as_json_of(explain(tmp_path, "orders"))

    assert found["rule"] == {
        "key": "topics",
        "pattern": "orders",
        "place": "A->B.topics (line 5)",
    }
    assert found["done"] is False
    assert not found["unknown"]


def test_a_yaml_file_names_its_own_keys(tmp_path: Path) -> None:
    file = tmp_path / "causeway.yaml"
    file.write_text(
        "clusters:\n  A: {bootstrap: [a:1]}\n  B: {bootstrap: [b:1]}\n"
        "links:\n  - from: A\n    to: B\n    topics: [orders]\n"
    )

    one = explain_topic(load(file).links[0], "orders", THERE)

    assert str(one.rule) == "A->B.topics (line 7, column 13), pattern orders"


def test_a_hidden_topic_is_reported_with_the_permission_that_is_needed(tmp_path: Path) -> None:
    error = AuthorizationError("look up topic", "orders on A", "not allowed")

    one = explain(tmp_path, "orders", replace(THERE, hidden=str(error)))

    assert "grant DESCRIBE, DESCRIBE_CONFIGS and READ on topic orders of A" in one.to_do[0]


RENAME = "A->B.causeway.rename = pay-(.*) => wages.$1; orders => __orders\n"


def test_a_topic_that_is_renamed_names_the_rule_and_its_line(tmp_path: Path) -> None:
    one = explain(tmp_path, "pay-eu", more=RENAME)

    assert one.target == "wages.eu"
    rule = "A->B.causeway.rename (line 7): pay-(.*) => wages.$1"
    assert told(one, "name") == [f"wages.eu ({rule})"]


def test_a_name_that_no_mirror_can_have_says_which_rule_makes_it(tmp_path: Path) -> None:
    one = explain(tmp_path, "orders", more=RENAME)

    assert (one.code, one.done) == ("name-unfit", False)
    assert "would be '__orders', an internal topic" in one.answer
    assert str(one.rule) == "A->B.causeway.rename (line 7), pattern orders => __orders"
    assert one.to_do == ("choose another name in A->B.causeway.rename (line 7)",)


def test_another_flow_that_renames_to_the_same_name_is_reported(tmp_path: Path) -> None:
    more = RENAME + (
        "clusters = A, B, C\nC.bootstrap.servers = c:1\nC->B.enabled = true\n"
        "C->B.causeway.rename = w-(.*) => wages.$1\n"
    )
    one = explain(tmp_path, "pay-eu", more=more)
    assert told(one, "same name") == ["C->B also writes to wages.eu, if C has w-eu"]


def test_what_becomes_of_each_record_names_its_key(tmp_path: Path) -> None:
    more = "A->B.causeway.skip.header = x-id\ncauseway.provenance = header\n"
    one = explain(tmp_path, "orders", more=more)

    assert told(one, "each record") == [
        "left out if it has the header x-id (A->B.causeway.skip.header (line 7))",
        "left out if it has been on B, by its headers, else marked as from A"
        " (causeway.provenance (line 8))",
    ]


def test_the_key_that_keeps_offsets_is_named(tmp_path: Path) -> None:
    one = explain(tmp_path, "orders", more="A->B.causeway.offsets = preserve\n")
    assert told(one, "offsets") == ["the same as on A (A->B.causeway.offsets (line 7) = preserve)"]
    listed = "causeway.offsets.preserve.topics = pay.*, ord.*\n"
    one = explain(tmp_path, "orders", more=listed)
    assert told(one, "offsets") == [
        "the same as on A (causeway.offsets.preserve.topics (line 7): ord.*)"
    ]
    assert told(explain(tmp_path, "orders"), "offsets") == []
