"""What a MirrorMaker 2 file says of groups, offset syncs, checkpoints, heartbeats and ACLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import (
    ControlSettings,
    Entry,
    HeartbeatSettings,
    LinkSettings,
    Problems,
    Secret,
    Settings,
)
from causeway.config.reading import spark_settings
from causeway.errors import ConfigError
from causeway.formats import load_mm2

PLAIN = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "mm2.properties"
    path.write_text(PLAIN + text)
    return load_mm2(path, environment={})


def link(tmp_path: Path, text: str) -> LinkSettings:
    (only,) = load(tmp_path, text).links
    return only


def heartbeats(tmp_path: Path, text: str) -> dict[str, HeartbeatSettings]:
    return {each.name: each for each in load(tmp_path, text).heartbeat_links}


def test_a_plain_file_has_mirror_makers_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, "")
    assert settings.links[0].control == ControlSettings()
    assert settings.warnings == ()
    assert settings.run.metrics_port is None


def test_a_flow_beats_the_top_level(tmp_path: Path) -> None:
    control = link(
        tmp_path,
        "groups = x\nA->B.groups = y, z\nsync.group.offsets.enabled = true\n"
        "A->B.sync.group.offsets.interval.seconds = 5\nemit.checkpoints.interval.seconds = 7\n"
        "offset.lag.max = 0\noffset-syncs.topic.location = target\n"
        "A->B.checkpoints.topic.replication.factor = -1\nrefresh.groups.enabled = false\n"
        "emit.offset-syncs.enabled = false\nsync.topic.acls.enabled = false\n"
        "causeway.mirror.maker.offsets = false\n",
    ).control
    assert [pattern.pattern for pattern in control.groups] == ["y", "z"]
    assert control.sync_group_offsets_enabled
    assert control.sync_group_offsets_interval_s == 5
    assert control.emit_checkpoints_interval_s == 7
    assert control.offset_lag_max == 0
    assert control.offset_syncs_topic_location == "target"
    assert control.checkpoints_replication_factor == -1
    assert not control.refresh_groups_enabled
    assert not control.emit_offset_syncs_enabled
    assert not control.sync_topic_acls_enabled
    assert not control.mm2_offsets


def test_the_old_name_of_groups_exclude(tmp_path: Path) -> None:
    control = link(tmp_path, "groups.blacklist = x").control
    assert [pattern.pattern for pattern in control.groups_exclude] == ["x"]


def test_names_of_the_internal_topics(tmp_path: Path) -> None:
    flow = link(tmp_path, "")
    assert flow.offset_syncs_topic == "mm2-offset-syncs.B.internal"
    assert flow.checkpoints_topic == "A.checkpoints.internal"
    flow = link(tmp_path, "offset-syncs.topic.location=target\nreplication.policy.separator=_\n")
    assert flow.offset_syncs_topic == "mm2-offset-syncs_A_internal"
    assert flow.checkpoints_topic == "A_checkpoints_internal"


def test_heartbeats_of_every_pair_whether_its_flow_runs_or_not(tmp_path: Path) -> None:
    found = heartbeats(
        tmp_path,
        "clusters = A, B, C\nC.bootstrap.servers = c:1\nC.admin.client.id = beat\n"
        "emit.heartbeats.interval.seconds = 2\nA->C.emit.heartbeats.enabled = false\n"
        "B->C.heartbeats.topic.replication.factor = 1\n",
    )
    assert sorted(found) == ["A->B", "B->A", "B->C", "C->A", "C->B"]
    assert {each.interval_s for each in found.values()} == {2}
    to_c = found["B->C"]
    assert (to_c.source, to_c.topic, to_c.replication_factor) == ("B", "heartbeats", 1)
    assert (to_c.target.bootstrap, to_c.target.client_id) == ((("c", 1),), "beat")
    assert found["B->A"].replication_factor == 3


def test_heartbeats_of_one_pair_only(tmp_path: Path) -> None:
    text = "emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = true\n"
    assert list(heartbeats(tmp_path, text)) == ["B->A"]
    assert not link(tmp_path, text).control.heartbeats.enabled


def test_a_cluster_without_address_gets_no_heartbeats_and_a_warning(tmp_path: Path) -> None:
    settings = load(tmp_path, "clusters = A, B, C\n")
    assert [each.name for each in settings.heartbeat_links] == ["A->B", "B->A", "C->A", "C->B"]
    assert [line for line in settings.warnings if "heartbeats" in line] == [
        f"no heartbeats {pair}: cluster C has no bootstrap.servers:"
        " set C.bootstrap.servers=host:port"
        for pair in ("A->C", "B->C")
    ]


def test_read_only_mirrors(tmp_path: Path) -> None:
    text = "causeway.read.only.mirrors = true\n"
    control = link(tmp_path, text + "A->B.causeway.principal = User:CN=cw,O=x\n").control
    assert control.read_only_mirrors
    assert control.principal == "User:CN=cw,O=x"
    with pytest.raises(
        ConfigError, match=r"read\.only\.mirrors \(line 6\) needs causeway\.princip"
    ):
        link(tmp_path, text)


def test_metrics(tmp_path: Path) -> None:
    text = "causeway.metrics.port = 9404\ncauseway.metrics.host = 10.0.0.1\n"
    run = load(tmp_path, text).run
    assert (run.metrics_port, run.metrics_host) == (9404, "10.0.0.1")
    assert load(tmp_path, "causeway.metrics.port = 9404\n").run.metrics_host == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups = (", r"groups \(line 6\): .*is not closed"),
        ("offset.lag.max = -1", "must be a whole number of at least 0, not '-1'"),
        ("offset-syncs.topic.location = B", "must be 'source' or 'target', not 'B'"),
        ("emit.heartbeats.interval.seconds = 0", "a whole number of at least 1"),
        ("checkpoints.topic.replication.factor = 0", "must be 1 to 32767, or -1"),
        ("causeway.principal = causeway", "must be a principal such as User:causeway"),
        ("causeway.metrics.port = 0", "must be 1 to 65535"),
    ],
)
def test_refusals(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, text)


def test_what_a_provider_resolved_for_spark_is_a_secret(tmp_path: Path) -> None:
    entries = {
        key: Entry(key=key, value=value, line=3, resolved=resolved)
        for key, value, resolved in (
            ("spark.master", "local[2]", False),
            ("spark.some.note", "hunter2hunter2", True),
            ("spark.ssl.keyPassword", "swordfish", False),
            ("spark.driver.extraJavaOptions", "-Dpw=hunter2hunter2", True),
            ("spark.executor.extraClassPath", "/jars", False),
        )
    }
    problems = Problems("f")
    found = spark_settings(entries, problems)
    assert found["spark.master"] == "local[2]"
    assert found["spark.some.note"] == Secret("hunter2hunter2")
    assert found["spark.ssl.keyPassword"] == Secret("swordfish")
    (line,) = problems.lines
    assert line.startswith("spark.driver.extraJavaOptions (line 3) becomes part of a command line")
    assert "hunter2" not in f"{found}{line}"


def test_the_file_pauses_what_it_names(tmp_path: Path) -> None:
    paused = link(tmp_path, "A->B.causeway.paused = records\n")
    told = load(tmp_path, "A->B.causeway.paused = records\n").warnings
    assert told == ("no record of A->B is copied: A->B.causeway.paused (line 6) says so",)
    assert paused.records_paused
    assert not paused.sync_topic_configs_enabled
    assert not paused.control.sync_topic_acls_enabled
    assert paused.control.emit_checkpoints_enabled
    found = load(
        tmp_path,
        "sync.group.offsets.enabled = true\nA->B.causeway.paused = heartbeats, Checkpoints\n",
    )
    (other,) = found.links
    assert not other.records_paused
    assert not other.control.emit_checkpoints_enabled
    assert not other.control.sync_group_offsets_enabled
    assert not other.control.heartbeats.enabled
    assert [each.name for each in found.heartbeat_links] == ["B->A"]


def test_what_cannot_be_paused_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"causeway\.paused \(line 6\) must be of records, "):
        load(tmp_path, "A->B.causeway.paused = topics\n")


def test_mirror_makers_positions_may_lie_elsewhere(tmp_path: Path) -> None:
    control = link(
        tmp_path,
        "A->B.causeway.mirror.maker.offsets.topic = connect-offsets\n"
        "A->B.causeway.mirror.maker.connector = a->b.MirrorSourceConnector\n",
    ).control
    assert control.mm2_offsets_topic == "connect-offsets"
    assert control.mm2_connector == "a->b.MirrorSourceConnector"
