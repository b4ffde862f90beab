"""What is told of transforms without Spark."""

from __future__ import annotations

from dataclasses import replace

from causeway.config import TransformSettings
from causeway.errors import ConfigError
from causeway.filters import compile_patterns
from causeway.link_topics import ProgressContents, Transformed, TransformRecord
from causeway.operate.plan import TransformPlan, transforms
from causeway.status import LinkStatus, as_json
from causeway.status.judging import transform_statuses
from tests.builders.settings import link
from tests.harness.statuses import ends

PII = TransformSettings(
    name="pii",
    topics=compile_patterns("customers, orders"),
    rules="drop value.$.name; hash value.$.mail with k",
)
REST = TransformSettings(name="rest", topics=compile_patterns(".*"), sql="SELECT * FROM records")
LINK = replace(link(), transforms=(PII, REST))


def test_a_topic_is_treated_by_the_first_that_matches_it() -> None:
    checks = {
        (LINK.name, each.name): TransformPlan(settings=each, sql="SELECT 1", replaces=("value",))
        for each in (PII, REST)
    }

    first, second = transforms.plan(LINK, checks, ["customers", "x", "orders"])

    assert (first.settings.name, first.topics) == ("pii", ("customers", "orders"))
    assert (second.settings.name, second.topics) == ("rest", ("x",))
    assert first.as_json()["sql"] == "SELECT 1"
    assert not first.as_json()["plain_records_without_spark"]


def test_what_the_progress_topic_says_of_them() -> None:
    counts = Transformed(
        records_in=10,
        records_out=9,
        dropped=1,
        seen=0b01,
        without_spark=7,
        through_spark=3,
        found=(7,),
        missing=(1, 8),
    )
    record = TransformRecord(name="pii", identity="1", counts=counts, reason="no memory")

    first, second = transform_statuses(
        LINK, ProgressContents(transforms={"pii": record}), {"customers": 3, "orders": 2, "x": 1}
    )

    assert (first.name, first.kind, first.partitions) == ("pii", "rules", 5)
    assert (first.counts, first.troubles) == (counts, ("no memory",))
    (unseen,) = first.unseen
    assert "mail" in unseen
    made = LinkStatus(**ends(LINK), transforms=(first, second))
    (link_json,) = as_json([made])["links"]
    told, other = link_json["transforms"]
    assert told["reason"] == "no memory"
    assert (told["records_out"], told["without_spark"], told["through_spark"]) == (9, 7, 3)
    assert [(one["found"], one["missing"]) for one in told["rules"]] == [(7, 1), (0, 8)]
    assert told["rules"][1]["rule"].startswith("2 ")
    assert (second.counts, second.unseen, second.partitions) == (None, (), 1)
    assert other["records_in"] is None


def test_all_errors_are_reported_together_and_once() -> None:
    one = ConfigError("use", "pii.sql (line 3)", "no column a", remedy="is it b?")
    two = ConfigError("use", "eu.sql (line 9)", "2 problems\n  no column b\n  no column c")

    assert transforms.together([one, one]) is one
    assert str(transforms.together([one, two, one])) == (
        "use the transforms: 2 cannot be used\n"
        "  pii.sql (line 3): no column a (is it b?)\n"
        "  eu.sql (line 9): 2 problems\n"
        "    no column b\n"
        "    no column c"
    )
