"""MirrorMaker 2's connectors in a Connect cluster, as their JSON has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from causeway.config import Settings
from causeway.errors import ConfigError, OtherFormError
from causeway.formats import Form, convert, load
from causeway.mm2_diff import compare

KAFKAS = "org.apache.kafka.connect.mirror."
SOURCE = {
    "connector.class": KAFKAS + "MirrorSourceConnector",
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "e:9092",
    "target.cluster.bootstrap.servers": "w:9092",
    "target.cluster.security.protocol": "SASL_PLAINTEXT",
    "target.cluster.sasl.mechanism": "PLAIN",
    "target.cluster.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
    ' required username="me" password="letmein";',
    "replication.policy.class": KAFKAS + "IdentityReplicationPolicy",
    "topics": "orders.*",
    "tasks.max": 4,
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "source.consumer.fetch.max.bytes": "77777",
    "sync.topic.acls.enabled": False,
    "emit.checkpoints.enabled": "true",  # which this connector does not act on
}
CHECKPOINT = {
    **{key: value for key, value in SOURCE.items() if key.startswith(("source.", "target."))},
    "connector.class": "MirrorCheckpointConnector",
    "groups": "billing",
    "sync.group.offsets.enabled": "true",
}
HEARTBEAT = {**CHECKPOINT, "connector.class": "MirrorHeartbeatConnector"}


def written(tmp_path: Path, document: Any) -> Path:
    file = tmp_path / "connectors.json"
    file.write_text(json.dumps(document))
    return file


def converted(tmp_path: Path, document: Any, form: Form = Form.PROPERTIES) -> Settings:
    found = convert(written(tmp_path, document), form)
    other = tmp_path / ("mm2.properties" if form is Form.PROPERTIES else "mirror.yaml")
    other.write_text(found.text)
    return load(other)


@pytest.mark.parametrize(
    "document",
    [
        {**SOURCE, "name": "mirror"},
        {"name": "mirror", "config": SOURCE},
        {"name": "mirror", "config": SOURCE, "tasks": [], "type": "source"},
        [{"name": "mirror", "config": SOURCE}],
        {"mirror": {"info": {"name": "mirror", "config": SOURCE}}},
        {"mirror": {"status": {}, "info": {"name": "mirror", "config": SOURCE}}},
    ],
)
def test_each_form_becomes_the_same_flow(tmp_path: Path, document: Any) -> None:
    (link,) = converted(tmp_path, document).links
    assert link.name == "east->west"
    assert link.source.bootstrap == (("e", 9092),)
    assert link.target.protocol == "SASL_PLAINTEXT"
    assert link.policy.kind == "identity"
    assert [pattern.pattern for pattern in link.topics] == ["orders.*"]
    assert link.fetch.max_bytes == 77777
    assert not link.control.sync_topic_acls_enabled
    assert not link.control.emit_checkpoints_enabled, "it has no checkpoint connector"
    assert not link.control.heartbeats.enabled
    assert link.control.mm2_connector == "mirror"
    assert link.control.mm2_offsets_topic == "connect-offsets"


def test_the_three_connectors_are_one_flow(tmp_path: Path) -> None:
    document = [
        {"name": kind, "config": config}
        for kind, config in (("s", SOURCE), ("c", CHECKPOINT), ("h", HEARTBEAT))
    ]
    for form in (Form.PROPERTIES, Form.CAUSEWAY):
        (link,) = converted(tmp_path, document, form).links
        assert link.control.emit_checkpoints_enabled
        assert link.control.sync_group_offsets_enabled
        assert [pattern.pattern for pattern in link.control.groups] == ["billing"]
        assert link.control.heartbeats.enabled
        assert link.control.mm2_connector == "s"


def test_the_recipe_of_empty_aliases_keeps_names(tmp_path: Path) -> None:
    config = {
        **SOURCE,
        "source.cluster.alias": "",
        "target.cluster.alias": "",
        "replication.policy.separator": "",
    }
    del config["replication.policy.class"]
    (link,) = converted(tmp_path, {"name": "mirror", "config": config}).links
    assert link.name == "source->target"
    assert link.policy.kind == "identity"
    assert link.control.mm2_aliases[0] == ""


def test_two_connectors_may_share_the_topics_of_a_flow(tmp_path: Path) -> None:
    other = {**SOURCE, "topics": "bills", "name": "two"}
    (link,) = converted(tmp_path, [{**SOURCE, "name": "one"}, other]).links
    assert [pattern.pattern for pattern in link.topics] == ["orders.*", "bills"]
    assert link.control.mm2_connector == "MirrorSourceConnector"
    with pytest.raises(ConfigError, match="one, two are source connectors of east->west with diff"):
        converted(tmp_path, [{**SOURCE, "name": "one"}, {**other, "replication.factor": 3}])


def test_others_read_what_to_write_instead_without_secrets(tmp_path: Path) -> None:
    file = written(tmp_path, {"name": "mirror", "config": SOURCE})
    with pytest.raises(OtherFormError) as refused:
        load(file)
    text = str(refused.value)
    assert "causeway convert" in text
    assert "east.bootstrap.servers = e:9092\n" in refused.value.instead
    assert "letmein" not in text + refused.value.instead
    found = compare(file)
    assert found.flows == ("east->west",)
    assert "causeway convert" in found.refused[0]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"name": "c", "config": CHECKPOINT}, "has no MirrorSourceConnector"),
        ({**SOURCE, "connector.class": "io.example.JdbcSource"}, "is no connector of MirrorMaker"),
        ({**SOURCE, "source.cluster.alias": "ea st"}, "has characters"),
    ],
)
def test_what_is_no_flow_is_refused(tmp_path: Path, document: Any, why: str) -> None:
    for read in (load, convert, compare):
        with pytest.raises(ConfigError, match=why):
            read(written(tmp_path, document))


def test_other_json_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(written(tmp_path, {"clusters": {"east": {"config": {}}}}))
    assert "Connect" not in str(refused.value)
