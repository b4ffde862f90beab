"""Where MirrorMaker 2's positions are, and the older recipe for unchanged names."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import LinkSettings, Settings
from causeway.errors import ConfigError
from causeway.formats import load_mm2
from causeway.mm2_diff import compare

PLAIN = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
IDENTITY = "replication.policy.class = IdentityReplicationPolicy\n"
RECIPE = "source.cluster.alias =\ntarget.cluster.alias =\nreplication.policy.separator =\n"


def load(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "mm2.properties"
    file.write_text(PLAIN + text)
    return load_mm2(file)


def link(tmp_path: Path, text: str) -> LinkSettings:
    (only,) = load(tmp_path, text).links
    return only


@pytest.mark.parametrize(
    ("text", "topic", "aliases"),
    [
        ("", None, ()),
        ("A.offset.storage.topic = x\n", None, ()),
        ("B.offset.storage.topic = x\n", "x", ("A", "")),
        ("B.offset.storage.topic = x\noffset.storage.topic = y\n", "y", ("A", "")),
        ("A->B.source.cluster.alias = east\n", "mm2-offsets.A.internal", ("east", "A", "")),
        (RECIPE, "mm2-offsets.A.internal", ("", "A")),
        (
            "B.offset.storage.topic = x\ncauseway.mirror.maker.offsets.topic = z\n",
            "z",
            ("A", ""),
        ),
    ],
)
def test_where_positions_are(
    tmp_path: Path, text: str, topic: str | None, aliases: tuple[str, ...]
) -> None:
    control = link(tmp_path, text).control
    assert (control.mm2_offsets_topic, control.mm2_aliases) == (topic, aliases)


def test_the_recipe_keeps_names(tmp_path: Path) -> None:
    settings = load(tmp_path, RECIPE)
    (flow,) = settings.links
    assert flow.name == "A->B"
    assert flow.policy.kind == "identity"
    assert flow.checkpoints_topic == "A.checkpoints.internal"
    assert any("keeps the names of topics" in line for line in settings.warnings)
    assert link(tmp_path, RECIPE + IDENTITY).policy.kind == "identity"
    for half in ("source.cluster.alias =\n", "replication.policy.separator =\n"):
        with pytest.raises(ConfigError):
            load(tmp_path, half)


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("", False),  # such a topic has one writer, and stops anyway
        (IDENTITY, True),
        (RECIPE, True),
        (IDENTITY + "causeway.sole.writer = false\n", False),
        (IDENTITY + "causeway.provenance = header\n", False),
        (IDENTITY + "causeway.skip.header = both\n", False),
    ],
)
def test_who_asks_about_data_that_is_there(tmp_path: Path, text: str, stops: bool) -> None:
    assert link(tmp_path, text).stops_on_data is stops


def test_nothing_that_diff_says_leads_away_from_the_positions(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(PLAIN + IDENTITY + "B.offset.storage.topic = x\n")
    found = compare(file)
    assert {key.key: key.note for key in found.keys}["B.offset.storage.topic"] == ""
    (positions,) = (one for one in found.differences if one.what == "positions")
    assert positions.mirror_maker == "x"
    assert any("asks" in one.causeway for one in found.differences)
