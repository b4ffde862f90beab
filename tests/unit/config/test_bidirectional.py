from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.filters import Verdict
from causeway.formats import load

TWO = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
B->A.enabled = true
replication.policy.class = IdentityReplicationPolicy
"""
THREE = """
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
replication.policy.class = IdentityReplicationPolicy
"""
HEADER = "causeway.provenance = header\n"


def _flows(*names: str) -> str:
    return "".join(f"{name}.enabled = true\n" for name in names)


def _load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    return load(path, environment={})


def _links(settings: Settings) -> dict[str, LinkSettings]:
    return {link.name: link for link in settings.links}


def test_names_that_stay_the_same_both_ways_need_headers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"go round for ever through A->B and B->A.*provenance"):
        _load(tmp_path, TWO)
    with pytest.raises(ConfigError, match="go round for ever"):
        _load(tmp_path, TWO + "A->B.causeway.provenance = header\n")
    links = _links(_load(tmp_path, TWO + HEADER))
    (step,) = links["B->A"].treatments
    assert (step.kind, step.decides) == ("provenance", {"source": "B", "target": "A"})


def test_what_would_go_round_follows_one_way(tmp_path: Path) -> None:
    settings = _load(tmp_path, TWO + HEADER)
    to_b, to_a = _links(settings)["A->B"], _links(settings)["B->A"]
    assert to_b.sync_topic_configs_enabled
    assert to_b.control.sync_topic_acls_enabled
    assert not to_a.sync_topic_configs_enabled
    assert not to_a.control.sync_topic_acls_enabled
    assert any(
        "sync.topic.configs.enabled is off for B->A" in warning for warning in settings.warnings
    )


def test_a_file_says_which_way_configs_go(tmp_path: Path) -> None:
    text = TWO + HEADER + "A->B.sync.topic.configs.enabled = false\n"
    settings = _load(tmp_path, text + "A->B.sync.topic.acls.enabled = false\n")
    assert _links(settings)["B->A"].sync_topic_configs_enabled
    assert not [warning for warning in settings.warnings if "is off for" in warning]
    assert "syncs no consumer groups" not in "".join(settings.warnings)


def test_groups_of_topics_that_both_sides_write_are_followed_by_both_flows(tmp_path: Path) -> None:
    links = _links(_load(tmp_path, TWO + HEADER + "A->B.sync.group.offsets.enabled = true\n"))
    assert links["A->B"].control.sync_group_offsets_enabled
    assert not links["B->A"].control.sync_group_offsets_enabled
    for name, back in (("A->B", "B->A"), ("B->A", "A->B")):
        reverse = links[name].reverse
        assert links[name].control.emit_checkpoints_enabled
        assert reverse is not None
        assert reverse.treatments == links[back].treatments


def test_groups_are_not_followed_if_records_lie_on_the_target_alone(tmp_path: Path) -> None:
    """What the reverse flow leaves out, a group on the source never reads."""
    skip = "B->A.causeway.skip.header = x-id\n"
    settings = _load(tmp_path, TWO + HEADER + skip)
    links = _links(settings)
    assert links["A->B"].reverse is None
    assert not links["A->B"].control.emit_checkpoints_enabled
    assert links["B->A"].reverse is not None
    assert "A->B syncs no consumer groups: B->A leaves out records by causeway.skip.header" in (
        "".join(settings.warnings)
    )
    with pytest.raises(ConfigError, match=r"emit.checkpoints.enabled \(line 10\) excludes"):
        _load(tmp_path, TWO + HEADER + skip + "A->B.emit.checkpoints.enabled = true\n")


def test_a_mesh_follows_no_groups(tmp_path: Path) -> None:
    mesh = _flows("A->B", "B->A", "A->C", "C->A", "B->C", "C->B")
    settings = _load(tmp_path, THREE + mesh + "causeway.provenance = local\n")
    assert not any(link.reverse for link in settings.links)
    assert "leaves out what other clusters have written" in "".join(settings.warnings)


def test_a_line_follows_groups(tmp_path: Path) -> None:
    """B's records on A go back to A's neighbour, wherever they were written."""
    line = _flows("A->B", "B->A", "B->C", "C->B")
    assert all(link.reverse for link in _load(tmp_path, THREE + HEADER + line).links)


def test_the_reverse_flow_may_be_in_another_file(tmp_path: Path) -> None:
    alone = TWO.replace("B->A.enabled = true\n", "") + HEADER
    settings = _load(tmp_path, alone)
    (link,) = settings.links
    assert link.reverse is None
    assert not link.control.emit_checkpoints_enabled
    assert "the file has no flow B->A" in "".join(settings.warnings)
    (link,) = _load(tmp_path, alone + "sync.group.offsets.enabled = true\n").links
    assert link.reverse is not None
    (step,) = link.reverse.treatments
    assert step.decides == {"source": "B", "target": "A"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("causeway.read.only.mirrors = true\ncauseway.principal = User:x", "programs write"),
        ("causeway.transforms = t\ncauseway.transform.t.sql = SELECT 1", "flow with transforms"),
        ("causeway.provenance = both", "must be .none., .header. or .local."),
    ],
)
def test_refused(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        _load(tmp_path, TWO + HEADER + line + "\n")


def test_with_prefixes_groups_are_followed_as_in_one_direction(tmp_path: Path) -> None:
    text = (TWO + HEADER).replace("IdentityReplicationPolicy", "DefaultReplicationPolicy")
    settings = _load(tmp_path, text + "sync.group.offsets.enabled = true\n")
    assert all(link.control.sync_group_offsets_enabled for link in settings.links)
    assert all(link.sync_topic_configs_enabled for link in settings.links)


@pytest.mark.parametrize(
    "flows",
    [
        ("A->B", "B->C", "C->A"),
        ("A->B", "B->A", "B->C", "C->B"),
    ],
)
def test_a_ring_and_a_line_bring_each_record_once(tmp_path: Path, flows: tuple[str, ...]) -> None:
    assert len(_load(tmp_path, THREE + HEADER + _flows(*flows)).links) == len(flows)


def test_each_flow_of_a_ring_needs_headers(tmp_path: Path) -> None:
    text = THREE + _flows("A->B", "B->C", "C->A") + HEADER + "C->A.causeway.provenance = none\n"
    with pytest.raises(ConfigError, match="go round for ever"):
        _load(tmp_path, text)


def test_a_mesh_would_bring_records_by_two_ways(tmp_path: Path) -> None:
    mesh = _flows("A->B", "B->A", "A->C", "C->A", "B->C", "C->B")
    with pytest.raises(ConfigError, match=r"would reach C twice, by .* and by"):
        _load(tmp_path, THREE + HEADER + mesh)
    links = _load(tmp_path, THREE + mesh + "causeway.provenance = local\n").links
    assert len(links) == 6
    on = [link.name for link in links if link.sync_topic_configs_enabled]
    assert on == ["A->B", "A->C", "B->C"]


def test_another_alias_hides_no_circle(tmp_path: Path) -> None:
    """A cluster is one by its addresses, whatever a flow calls it."""
    text = TWO + "A->B.source.cluster.alias = X\n"
    with pytest.raises(ConfigError, match="go round for ever through X->B and B->A"):
        _load(tmp_path, text)
    with pytest.raises(ConfigError, match=r"X and A are one cluster.*must use one alias for it"):
        _load(tmp_path, text + HEADER)
    both = text + "B->A.target.cluster.alias = X\n"
    assert set(_links(_load(tmp_path, both + HEADER))) == {"X->B", "B->X"}
    with_names = text.replace("IdentityReplicationPolicy", "DefaultReplicationPolicy")
    assert set(_links(_load(tmp_path, with_names))) == {"X->B", "B->A"}


def test_the_same_brokers_under_another_alias_are_no_way_back_for_flows_with_prefixes(
    tmp_path: Path,
) -> None:
    text = THREE.replace("c:1", "b:1").replace("Identity", "Default")
    keeps = "A->C.replication.policy.class = IdentityReplicationPolicy\n"
    assert len(_load(tmp_path, text + _flows("A->B", "B->A", "A->C") + keeps).links) == 3


def test_two_ways_without_a_way_back_are_refused_too(tmp_path: Path) -> None:
    flows = _flows("A->B", "B->C", "A->C")
    with pytest.raises(ConfigError, match="records written on A would reach C twice"):
        _load(tmp_path, THREE + HEADER + flows)
    local = "B->C.causeway.provenance = local\n"
    assert len(_load(tmp_path, THREE + HEADER + local + flows).links) == 3
    assert len(_load(tmp_path, THREE + flows).links) == 3  # as MirrorMaker 2


def test_a_header_that_is_skipped_is_a_step_before_the_others(tmp_path: Path) -> None:
    links = _links(_load(tmp_path, TWO + HEADER + "A->B.causeway.skip.header = x-id\n"))
    assert [step.kind for step in links["A->B"].treatments] == ["skip-header", "provenance"]
    assert [step.kind for step in links["B->A"].treatments] == ["provenance"]


def test_heartbeats_stay_what_they_are(tmp_path: Path) -> None:
    link = _links(_load(tmp_path, TWO + HEADER))["A->B"]
    assert link.treatments_of("orders")
    assert not link.treatments_of("heartbeats")


def test_yaml_says_it_too(tmp_path: Path) -> None:
    path = tmp_path / "causeway.yaml"
    path.write_text(
        """
clusters:
  A: {bootstrap: "a:1"}
  B: {bootstrap: "b:1"}
defaults:
  naming: {policy: IdentityReplicationPolicy}
  provenance: header
links:
- from: A
  to: B
  skip-header: x-id
- from: B
  to: A
"""
    )
    links = _links(load(path, environment={}))
    assert [step.kind for step in links["A->B"].treatments] == ["skip-header", "provenance"]
    assert links["B->A"].mingles


@pytest.mark.parametrize(
    ("to_b", "to_a", "apart"),
    [
        ("eu.*", "us.*", True),
        (r"eu\\..*", r"us\\..*", True),
        ("orders, bills", "paid", True),
        ("orders", "orders.*", False),
        ("orders", "orders-eu.*", True),
        ("a.b", "a-b", False),  # a dot is any character
        ("a.b", "a-c", True),
        ("eu.*, all", "us.*, al+", False),
        ("eux?.*", "eu", False),
        ("eu+", "euu", False),
        ("(?i)EU", "eu", False),
        ("eu|us", "us", False),
        (".*", "us", False),
        ("[ab]x", "ax", False),
    ],
)
def test_flows_of_different_topics_are_no_circle(
    to_b: str, to_a: str, apart: bool, tmp_path: Path
) -> None:
    text = f"{TWO}A->B.topics = {to_b}\nB->A.topics = {to_a}\n"
    if apart:
        settings = _load(tmp_path, text)
        assert all(link.sync_topic_configs_enabled for link in settings.links)
    else:
        with pytest.raises(ConfigError, match="go round for ever"):
            _load(tmp_path, text)
    on = [link.sync_topic_configs_enabled for link in _load(tmp_path, text + HEADER).links]
    assert on == [True, apart]


def test_two_ways_of_different_topics_bring_nothing_twice(tmp_path: Path) -> None:
    text = THREE + HEADER + _flows("A->B", "B->C", "A->C")
    topics = "A->B.topics = x.*\nB->C.topics = {}\nA->C.topics = y.*\n"
    assert len(_load(tmp_path, text + topics.format("x.*")).links) == 3
    with pytest.raises(ConfigError, match="would reach C twice"):
        _load(tmp_path, text + "A->B.topics = x.*\nB->C.topics = x.*\nA->C.topics = xy\n")


def test_a_reverse_link_waits_for_its_begin_directive(tmp_path: Path) -> None:
    settings = _load(tmp_path, TWO + "B->A.causeway.way.back = true\nB->A.topics = orders\n")
    links = _links(settings)
    there, back = links["A->B"], links["B->A"]
    assert (there.way_back, back.way_back) == (False, True)
    assert there.decide_topic("orders").target_name == "orders"
    decision = back.decide_topic("orders")
    assert (decision.verdict, decision.target_name) == (Verdict.WAY_BACK, None)
    assert "causeway failback" in decision.reason
    assert back.as_begun("orders").target_name == "orders"
    assert back.as_begun("bills").target_name is None
    narrow = replace(back, way_back=False)
    assert narrow.as_begun("bills").target_name is None, "nor where it is none"
    back = replace(back, chosen=frozenset({"orders", "bills"}))
    assert back.decide_topic("orders").target_name == "orders"
    assert back.decide_topic("bills").verdict is Verdict.NOT_INCLUDED


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("A->B.causeway.way.back = true\nB->A.causeway.way.back = true\n", "does not have"),
        ("B->A.causeway.way.back = true\nA->B.enabled = false\n", "needs the flow A->B"),
        ("B->A.causeway.way.back = true\n" + HEADER, "excludes causeway.provenance"),
        (
            "B->A.causeway.way.back = true\n"
            "B->A.replication.policy.class = DefaultReplicationPolicy\n",
            "for flows that keep names",
        ),
    ],
)
def test_a_way_back_leads_back_what_another_flow_brings(
    tmp_path: Path, lines: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        _load(tmp_path, TWO + lines)
