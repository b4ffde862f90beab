"""Manifests as text, and the chunks that a restore cuts them into."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.model import TopicPartition
from causeway.operate.archive import ArchivedRange, ArchivedTopic, Manifest
from causeway.operate.archive.archiving import _file_modes
from causeway.operate.archive.restoring import chunks_of
from causeway.operate.archive.store import ends


def manifest(number: int, shares: dict[int, tuple[int, int]]) -> Manifest:
    topic = ArchivedTopic(
        topic_id="1" * 32,
        partitions=3,
        configs={"retention.ms": "-1"},
        shares={
            p: ArchivedRange(start=a, end=b, records=b - a, digest=-7)
            for p, (a, b) in shares.items()
        },
    )
    return Manifest(number=number, cluster_id="c", topics={"t": topic}, files=("topic=t/x",))


def test_a_manifest_is_what_its_text_says() -> None:
    one = manifest(3, {0: (5, 9), 2: (0, 0)})
    assert Manifest.loads(one.dumps()) == one
    assert ends([manifest(1, {0: (0, 5)}), one]) == {
        TopicPartition("t", 0): 9,
        TopicPartition("t", 2): 0,
    }


sizes = st.dictionaries(st.integers(0, 2), st.integers(0, 200_000), max_size=3)


@given(st.lists(sizes, max_size=4), sizes)
def test_chunks_hold_each_offset_once_in_order_and_stay_when_the_archive_grows(
    runs: list[dict[int, int]], more: dict[int, int]
) -> None:
    manifests, at = [], {0: 10, 1: 0, 2: 99}
    for number, run in enumerate(runs):
        manifests.append(manifest(number + 1, {p: (at[p], at[p] + n) for p, n in run.items()}))
        at |= {p: at[p] + n for p, n in run.items()}
    found = list(chunks_of(manifests, "t"))
    assert [chunk.number for chunk in found] == list(range(len(found)))
    for partition, first in {0: 10, 1: 0, 2: 99}.items():
        place = first
        for chunk in found:
            if partition in chunk.ranges:
                start, end = chunk.ranges[partition]
                assert start == place
                assert end > start
                place = end
        assert place == at[partition]
    grown = [*manifests, manifest(9, {p: (at[p], at[p] + n) for p, n in more.items()})]
    assert list(chunks_of(grown, "t"))[: len(found)] == found


@pytest.mark.parametrize(
    ("umask", "hadoop"), [(0o022, None), (0o002, None), (0o077, "077"), (0o027, "027"), (7, "027")]
)
def test_an_archive_is_for_no_more_to_read_than_the_umask_has_it(
    umask: int, hadoop: str | None
) -> None:
    before = os.umask(umask)
    try:
        found = _file_modes()
        assert os.umask(umask) == umask
    finally:
        os.umask(before)
    assert found.get("spark.hadoop.fs.permissions.umask-mode") == hadoop
