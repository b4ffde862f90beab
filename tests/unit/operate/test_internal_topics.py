"""Which topics a run makes besides its mirrors; the clusters are stand-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from causeway.cluster import ConfigEntry, TopicMetadata
from causeway.config import ClientSettings, Settings
from causeway.errors import UnreachableError
from causeway.formats import load_mm2
from causeway.operate.plan import internal_topics

TWO_OF_THREE = """
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
A->C.emit.heartbeats.enabled = false
C->A.emit.heartbeats.enabled = false
C->B.emit.heartbeats.enabled = false
"""


class Standing:
    """A cluster that has `topics`; None: out of reach. Their cleanup.policy is `policy`."""

    def __init__(self, topics: set[str] | None, policy: str = "compact") -> None:
        self._topics = topics
        self._policy = policy

    def describe_configs(self, names: list[str], _: Any) -> Any:
        entry = ConfigEntry(value=self._policy, source="DYNAMIC_TOPIC_CONFIG")
        return {name: {"cleanup.policy": entry} for name in names}

    def metadata(self, names: list[str]) -> Any:
        if self._topics is None:
            raise UnreachableError("connect to", "C")
        there = {name: _topic(name) for name in names if name in self._topics}
        return type("Metadata", (), {"topics": there})


def _topic(name: str) -> TopicMetadata:
    one: Any = object()
    return TopicMetadata(name=name, topic_id="1", partitions={0: one}, error=None, internal=False)


def settings(tmp_path: Path, more: str = "") -> Settings:
    file = tmp_path / "mm2.properties"
    file.write_text(TWO_OF_THREE + more)
    return load_mm2(file)


def planned(settings: Settings, **clusters: set[str] | None) -> list[tuple[str, str, bool | None]]:
    def connect(client: ClientSettings) -> Any:
        return Standing(clusters.get(client.alias, set()))

    found: Any = connect
    return [
        (each.cluster, each.topic, each.there) for each in internal_topics.plan(settings, found)
    ]


def test_all_that_a_first_run_makes_on_every_cluster(tmp_path: Path) -> None:
    assert planned(settings(tmp_path)) == [
        ("A", "heartbeats", False),
        ("A", "mm2-offset-syncs.B.internal", False),
        ("B", "A.checkpoints.internal", False),
        ("B", "A.heartbeats", False),
        ("B", "__causeway.A.B.progress", False),
        ("B", "heartbeats", False),
        ("C", "heartbeats", False),
    ]


def test_existing_topics_and_unreachable_clusters_are_distinguished(tmp_path: Path) -> None:
    found = planned(settings(tmp_path), A={"heartbeats"}, B={"__causeway.A.B.progress"}, C=None)

    assert ("A", "heartbeats", True) in found
    assert ("B", "__causeway.A.B.progress", True) in found
    assert ("C", "heartbeats", None) in found
    assert "A.heartbeats" not in [topic for _, topic, _ in found], "a mirror like the others"


@pytest.mark.parametrize(
    ("more", "cluster", "topic"),
    [
        ("emit.checkpoints.enabled = false", "B", "A.checkpoints.internal"),
        ("emit.offset-syncs.enabled = false", "A", "mm2-offset-syncs.B.internal"),
        ("emit.heartbeats.enabled = false", "A", "heartbeats"),
        ("heartbeats.replication.enabled = false\ntopics = x", "B", "A.heartbeats"),
    ],
)
def test_what_is_switched_off_is_not_made(
    tmp_path: Path, more: str, cluster: str, topic: str
) -> None:
    assert (cluster, topic, False) not in planned(settings(tmp_path, more))


def test_offset_syncs_on_the_target(tmp_path: Path) -> None:
    found = planned(settings(tmp_path, "offset-syncs.topic.location = target"))
    assert ("B", "mm2-offset-syncs.A.internal", False) in found


def test_dead_letters_stay_on_the_source(tmp_path: Path) -> None:
    more = (
        "A->B.topics = .*\nA->B.causeway.transforms = pii\n"
        "A->B.causeway.transform.pii.topics = x\nA->B.causeway.transform.pii.sql = SELECT 1\n"
        "A->B.causeway.transform.pii.on.error = dead-letter\n"
        "A->B.causeway.transform.pii.dead.letter.topic = refused\n"
    )

    found = planned(settings(tmp_path, more))

    assert [(alias, topic) for alias, topic, _ in found if "refused" in topic] == [("A", "refused")]


def test_own_topics_that_are_not_compacted_are_to_be_changed(tmp_path: Path) -> None:
    """Those that only matter once they are there are among them."""
    there = {
        "B": {
            "__causeway.A.B.progress",
            "__causeway.A.B.directives",
            "mm2-offsets.A.internal",
            "A.heartbeats",
        },
        "A": {"heartbeats"},
    }

    def connect(client: ClientSettings) -> Any:
        return Standing(there.get(client.alias, set()), "delete")

    found: Any = connect
    own_topics = internal_topics.plan(settings(tmp_path), found)
    assert {each.topic: each.change for each in own_topics if each.there} == dict.fromkeys(
        ("heartbeats", *sorted(there["B"] - {"A.heartbeats"})),
        "set cleanup.policy to compact, it is delete",
    )
