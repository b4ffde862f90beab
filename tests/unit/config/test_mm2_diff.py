"""MirrorMaker 2's view of a file beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.config.reading import KeyEffect
from causeway.errors import ConfigError
from causeway.mm2_diff import Comparison, compare

PLAIN = """\
clusters = A, B, C
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
C.bootstrap.servers = 127.0.0.1:3
A->B.enabled = true
"""


def compared(tmp_path: Path, *lines: str) -> Comparison:
    file = tmp_path / "mm2.properties"
    file.write_text(PLAIN + "\n".join(lines) + "\n")
    return compare(file)


@pytest.mark.parametrize(
    ("line", "use", "note"),
    [
        ("A->B.topics = orders", KeyEffect.ACTS, ""),
        ("topics.blacklist = tmp", KeyEffect.ACTS, "passes it over"),
        ("A->B.tasks.max = 8", KeyEffect.MEANINGLESS, "causeway.lanes"),
        ("B.listeners = http://:8083", KeyEffect.MEANINGLESS, "causeway.http.port"),
        ("B.group.id = x", KeyEffect.MEANINGLESS, "about how Connect works"),
        ("B.producer.compression.type = zstd", KeyEffect.ACTS, ""),
        ("B.producer.batch.size = 9", KeyEffect.NOT_YET, "sizes are the source's"),
        ("B.producer.acks = all", KeyEffect.AGREED, ""),
        ("B.producer.acks = 1", KeyEffect.NOT_YET, "always acks=all"),
        ("B.sasl.kerberos.service.name = kafka", KeyEffect.ACTS, ""),
        ("B.sasl.kerberos.kinit.cmd = /bin/kinit", KeyEffect.ACTS, ""),
        ("B.sasl.login.read.timeout.ms = 9", KeyEffect.NOT_YET, "socket.connection.setup.timeout"),
        ("B.sasl.login.retry.backoff.ms = 9", KeyEffect.NOT_YET, "a connection is tried again"),
        ("B.sasl.login.refresh.window.jitter = 0.1", KeyEffect.NOT_YET, "four fifths of its life"),
        ("B.sasl.oauthbearer.scope.claim.name = scp", KeyEffect.NOT_YET, "brokers check tokens"),
        ("B.sasl.oauthbearer.assertion.claim.iss = me", KeyEffect.ACTS, ""),
        ("A.admin.metadata.max.age.ms = 1", KeyEffect.NOT_YET, "no effect here"),
        ("A.topics = x", KeyEffect.MISPLACED, "write it as topics"),
        ("A->B.topcs = x", KeyEffect.UNKNOWN, "did you mean A->B.topics?"),
        ("causeway.lanes = 3", KeyEffect.OURS, ""),
        ("spark.executor.memory = 1g", KeyEffect.OURS, ""),
        ("A->B.transforms = mask", KeyEffect.REFUSED, "causeway.transforms"),
    ],
)
def test_what_becomes_of_a_key(tmp_path: Path, line: str, use: KeyEffect, note: str) -> None:
    found = compared(tmp_path, line).keys[-1]
    assert (found.key, found.line, found.use) == (line.partition(" ")[0], 6, use)
    assert note in found.note
    assert bool(note) == bool(found.note)


def rows(found: Comparison) -> dict[str, tuple[str, ...]]:
    return {one.what: one.flows for one in found.differences}


@pytest.mark.parametrize(
    ("what", "lines", "other"),
    [
        ("delivery", (), "causeway.delivery = at-least-once"),
        ("transactions of the source", (), "A.consumer.isolation.level = read_committed"),
        ("others write to a mirrored topic", (), "causeway.sole.writer = false"),
        (
            "others write to a mirrored topic",
            (),
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        ),
        ("codec of batches", (), "B.producer.compression.type = lz4\ncauseway.recompress = always"),
        (
            "codec of batches",
            ("A->B.producer.compression.type = zstd",),
            "A->B.causeway.recompress = always",
        ),
        ("offsets of groups", (), "emit.checkpoints.enabled = false"),
        ("offset syncs", (), "A->B.emit.offset-syncs.enabled = false"),
        ("topics called x.internal", (), "causeway.internal.topics = kafka-3"),
        ("opens a port", (), "causeway.http.port = -1"),
        (
            "groups synced without checkpoints",
            ("sync.group.offsets.enabled = true", "emit.checkpoints.enabled = false"),
            "sync.group.offsets.enabled = false",
        ),
        (
            "checkpoints without offset syncs",
            ("emit.offset-syncs.enabled = false",),
            "emit.offset-syncs.enabled = true",
        ),
        (
            "topics that come while it runs",
            ("A.consumer.auto.offset.reset = latest",),
            "A.consumer.auto.offset.reset = earliest",
        ),
        ("topics.blacklist", ("topics.blacklist = x",), "topics.exclude = x"),
        (
            "topics that causeway.rename matches",
            ("causeway.rename = a => b",),
            "A->B.causeway.rename =",
        ),
        (
            "a replication policy in Python",
            ("replication.policy.class = no.such:Policy",),
            "replication.policy.class = DefaultReplicationPolicy",
        ),
    ],
)
def test_a_difference_is_reported_where_there_is_one(
    tmp_path: Path, what: str, lines: tuple[str, ...], other: str
) -> None:
    assert what in rows(compared(tmp_path, *lines))
    assert what not in rows(compared(tmp_path, *lines, other))


def test_kept_offsets_have_their_own_remedy_for_records_of_others(tmp_path: Path) -> None:
    found = compared(tmp_path, "causeway.offsets = preserve")
    others = next(one for one in found.differences if one.what.startswith("others write"))
    assert "restart --refill" in others.key
    assert "sole.writer" not in others.key


def test_each_flow_is_compared_by_its_own_keys(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        "A->C.enabled = true",
        "A->C.offset-syncs.topic.location = target",
        "B->C.enabled = false",
        "C.exactly.once.source.support = enabled",
    )
    assert found.flows == ("A->B", "A->C")
    assert found.refused == ()
    said = {(one.what, one.flows): one.mirror_maker for one in found.differences}
    assert said["offset syncs", ("A->B",)].startswith("mm2-offset-syncs.B.internal on A: ")
    assert said["offset syncs", ("A->C",)].startswith("mm2-offset-syncs.A.internal on C: ")
    assert "at least once" in said["delivery", ("A->B",)]
    assert "by transactions" in said["delivery", ("A->C",)]
    assert said["metrics", ("A->B", "A->C")]


def test_what_would_be_refused(tmp_path: Path) -> None:
    found = compared(tmp_path, "A->B.offset.lag.max = often")
    assert [line for line in found.refused if "A->B.offset.lag.max (line 6)" in line]
    assert "often" not in json.dumps([one.mirror_maker for one in found.differences])


def test_no_message_holds_a_secret(tmp_path: Path) -> None:
    """Nor a piece of one that was written on several lines."""
    jaas = 'B.sasl.jaas.config = org.x.PlainLoginModule required username="me" password="hunter2'
    found = compared(tmp_path, jaas, 'secr3t77";', "B.ssl.truststore.password = s3cond")
    told = json.dumps(found.as_json())
    assert not [secret for secret in ("hunter2", "secr3t77", "s3cond") if secret in told]
    assert found.keys[-2].key == "(hidden)"
    assert found.keys[-2].use is KeyEffect.UNKNOWN


RESOURCES = Path(__file__).parent / "strimzi" / "resources"


def test_other_forms_are_compared_as_the_property_file_that_says_the_same(tmp_path: Path) -> None:
    found = compare(RESOURCES / "v1-plain.yaml")
    assert found.flows == ("cluster-a->cluster-b",)
    keys = {key.key: key for key in found.keys}
    assert all(name.startswith("spec.") for name in keys)
    assert keys["spec.mirrors[0].sourceConnector.tasksMax"].use is not KeyEffect.ACTS
    theirs = {one.what: one.mirror_maker for one in found.differences}
    assert theirs["positions"] == "__my-mirror-maker-2-offset"
    assert "mm2-offsets" not in theirs["its own topics on cluster-b"]
    file = tmp_path / "causeway.yaml"
    file.write_text(
        "clusters:\n  A: {bootstrap: a:9092}\n  B: {bootstrap: b:9092}\n"
        "links: [{from: A, to: B, topics: [orders]}]\n"
    )
    found = compare(file)
    assert (found.flows, found.refused) == (("A->B",), ())
    assert {key.key for key in found.keys} >= {"clusters.A.bootstrap", "A->B.topics"}
    assert "exactly once" in str([one.causeway for one in found.differences])


def test_what_is_none_of_these_forms(tmp_path: Path) -> None:
    file = tmp_path / "causeway.yaml"
    file.write_text("- nothing\n")
    with pytest.raises(ConfigError):
        compare(file)
    with pytest.raises(ConfigError, match="there is no such file"):
        compare(tmp_path / "none.properties")


def test_a_login_of_causeway_yaml_is_no_unknown_key(tmp_path: Path) -> None:
    path = tmp_path / "causeway.yaml"
    path.write_text(
        "clusters:\n  A:\n    bootstrap: a:1\n    security: {protocol: SASL_SSL, sasl: {mechanism:"
        " PLAIN, username: u, password: w}}\n  B: {bootstrap: b:1}\nlinks: [{from: A, to: B}]\n"
    )
    found = compare(path)
    assert found.of(KeyEffect.UNKNOWN) == ()
