"""Topics under names that rules, and a policy of one's own, have made: all that belongs to a mirror
goes along, and a topic whose name another one has is left out with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.command import causeway
from tests.harness.control import checkpoints
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools, Outgoing
from tests.harness.running import assert_same, mm2_file

pytestmark = pytest.mark.integration

POLICY = '''\
class Suffix:
    """orders -> orders_from_A"""

    def format_remote_topic(self, source_alias, topic):
        if topic.endswith("odd"):
            raise LookupError("no team has it")
        return f"{topic}_from_{source_alias}"

    def topic_source(self, topic):
        return topic.rpartition("_from_")[2] if "_from_" in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition("_from_")[0] or None
'''


@pytest.mark.slow
def test_renamed_topics_and_those_that_collide(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In two runs: the first finds names that clash from the beginning; before the second a topic
    has come that would have the name of one that is mirrored."""
    (tmp_path / "teams.py").write_text(POLICY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    orders, pay, odd, group = (prefix + name for name in ("orders.eu", "pay", "odd", "app"))
    sales, paid, taken = prefix + "sales.eu", f"{prefix}pay_from_A", prefix + "taken"
    source.create_topic(orders, 2, config={"retention.ms": "7200000"})
    source.create_topics([pay, odd, prefix + "dup-1", prefix + "dup-2", prefix + "log"])
    target.create_topic(taken)
    target.produce(taken, [b"somebody's"])
    for topic in (orders, pay, odd, prefix + "dup-1", prefix + "log"):
        source.produce(
            topic, [Outgoing(value=b"%d" % number, partition=0) for number in range(300)]
        )
    source.commit_group(group, {(orders, 0): 17, (pay, 0): 30})
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        f"groups = {prefix}.*",
        "sync.group.offsets.enabled = true",
        "sync.topic.acls.enabled = false",
        "replication.policy.class = teams:Suffix",
        f"A->B.causeway.rename = {prefix}orders\\\\.(.*) => {prefix}sales.$1 ; "
        f"{prefix}dup-. => {prefix}dup ; {prefix}log => {taken} ; "
        f"{prefix}late-(.{{1,3}}) => {prefix}sales.$1",
    )

    planned = causeway("plan", file, "--json")
    assert planned.code not in (0, 1), planned.err
    (link,) = planned.json["links"]
    assert {one["topic"]: one["target_topic"] for one in link["mirrored"]} == {
        orders: sales,
        pay: paid,
    }
    left = {one["topic"]: one["code"] for one in link["left_out"] if prefix in one["topic"]}
    assert left == {
        prefix + "dup-1": "name-taken",
        prefix + "dup-2": "name-taken",
        prefix + "log": "name-taken",
        odd: "policy-failed",
    }

    # What can be mirrored is, and the exit code tells that something could not.
    ran = causeway("run", file, "--until-caught-up")
    assert ran.code == 7, ran.err
    assert_same(source, orders, target, sales)
    assert_same(source, pay, target, paid)
    assert target.topic_config(sales)["retention.ms"] == "7200000"
    assert target.group_offsets(group) == {(sales, 0): 17, (paid, 0): 30}
    assert {at for name, at in checkpoints(target) if name == group} == {(sales, 0), (paid, 0)}
    assert [record.value for record in target.read(taken)[0]] == [b"somebody's"]
    assert {prefix + "dup", f"{prefix}odd_from_A"}.isdisjoint(target.topics())

    for name, words in {
        prefix + "dup-1": f"{prefix}dup on B would be the mirror of {prefix}dup-2, too",
        odd: "teams:Suffix.format_remote_topic raised LookupError: no team has it",
    }.items():
        told = causeway("explain", file, name)
        assert words in told.out, (told.out, told.err)
    told = causeway("explain", file, orders)
    assert f"{sales} (A->B.causeway.rename (line " in told.out.replace("\n", " "), told.out
    wrong = causeway("explain", file, sales)
    assert f"named as on the source, where it is {orders}" in wrong.err

    where: list[str | Path] = [
        "translate",
        file,
        "--partition",
        "0",
        "--offset",
        "17",
        "--json",
        "--topic",
    ]
    (back,) = causeway(*where, sales, "--back").json["answers"][0]["places"]
    assert (back["topic"], back["offset"]) == (orders, 17)

    source.create_topic(prefix + "late-eu")
    source.produce(prefix + "late-eu", [b"late"])
    source.produce(orders, [b"more"] * 50)
    assert causeway("run", file, "--until-caught-up").code == 7
    assert_same(source, orders, target, sales)
    told = causeway("explain", file, prefix + "late-eu")
    assert f"{sales} on B is the mirror of {orders}, too" in told.out, told.out
