"""OffsetFetch and OffsetCommit by hand, next to kafka-python's classes, in each version."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from causeway.errors import ProtocolError
from causeway.model import TopicPartition
from causeway.wire import CommitOffsets, Committed, FetchOffsets
from causeway.wire.group_offsets import GroupRequest

FETCHES, COMMITS = range(2, 9), range(2, 10)
LONG = "ü" * 70  # its length has two bytes

_texts = st.sampled_from(["", "a", "grüße", LONG])
_committed = st.builds(
    Committed,
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.sampled_from([-1, 0, 2**31 - 1]),
    metadata=_texts,
)
_places = st.builds(TopicPartition, st.sampled_from(["t", LONG]), st.integers(0, 200))
_offsets = st.dictionaries(_places, _committed, max_size=5)


def read(request: GroupRequest, kind: Any, version: int) -> Any:
    """The request as a broker reads it."""
    frame = bytes(request.frame(version, 7, b"client"))
    data = io.BytesIO(frame[4:])
    kind.parse_header(data, version=version)
    found = kind.decode(frame[4 + data.tell() :], version=version)
    # All of it was read: kafka-python writes the same.
    found._header = None
    found.API_VERSION = version
    found.with_header(correlation_id=7, client_id="client")
    assert found.encode(header=True, framed=True) == frame
    return found


def by_topic(offsets: dict[TopicPartition, Any]) -> dict[str, list[tuple[int, Any]]]:
    found: dict[str, list[tuple[int, Any]]] = {}
    for (topic, partition), each in offsets.items():
        found.setdefault(topic, []).append((partition, each))
    return found


@pytest.mark.parametrize("version", COMMITS)
@given(group=_texts, offsets=_offsets)
def test_a_commit_is_what_a_broker_reads(
    version: int, group: str, offsets: dict[TopicPartition, Committed]
) -> None:
    found = read(CommitOffsets(group, offsets), OffsetCommitRequest, version)
    assert (found.group_id, found.member_id) == (group, "")
    assert found.generation_id_or_member_epoch == -1
    assert found.retention_time_ms == -1
    assert found.group_instance_id is None
    assert {
        TopicPartition(topic.name, part.partition_index): Committed(
            offset=part.committed_offset,
            leader_epoch=part.committed_leader_epoch,
            metadata=part.committed_metadata,
        )
        for topic in found.topics
        for part in topic.partitions
    } == {
        at: each if version >= 6 else Committed(offset=each.offset, metadata=each.metadata)
        for at, each in offsets.items()
    }
    names = [topic.name for topic in found.topics]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("version", COMMITS)
@given(codes=st.dictionaries(_places, st.integers(-1, 120), max_size=5), throttle=st.integers(0, 9))
def test_the_answer_to_a_commit(
    version: int, codes: dict[TopicPartition, int], throttle: int
) -> None:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    part = topic.OffsetCommitResponsePartition
    answer = OffsetCommitResponse(
        throttle_time_ms=throttle,
        topics=[
            topic(name=n, partitions=[part(partition_index=p, error_code=c) for p, c in parts])
            for n, parts in by_topic(codes).items()
        ],
    )
    data = memoryview(answer.encode(version=version))
    found = CommitOffsets("g", dict.fromkeys(codes, Committed(offset=1))).decode(data, version)
    assert found.errors == {at: code for at, code in codes.items() if code}
    assert found.throttle_time_ms == (throttle if version >= 3 else 0)
    more = dict.fromkeys([*codes, TopicPartition("left-out", 0)], Committed(offset=1))
    with pytest.raises(ProtocolError, match=r"group g: .*leaves out partitions"):
        CommitOffsets("g", more).decode(data, version)


@pytest.mark.parametrize("version", FETCHES)
def test_the_question_for_offsets(version: int) -> None:
    groups = ["g", LONG] if version >= 8 else ["g"]
    found = read(FetchOffsets(groups), OffsetFetchRequest, version)
    if version >= 8:
        assert [each.group_id for each in found.groups] == groups
        assert not any(each.topics for each in found.groups), "all topics"
    else:
        assert (found.group_id, found.topics) == ("g", None)
    assert bool(found.require_stable) is (version >= 7)


def fetched(
    version: int, groups: dict[str, tuple[int, dict[TopicPartition, tuple[Any, int]]]]
) -> Any:
    """A broker's answer: by group, its error code, and the commit and the error of partitions."""
    kind: Any = OffsetFetchResponse
    topic, part = kind.OffsetFetchResponseTopic, None
    if version >= 8:
        topic = kind.OffsetFetchResponseGroup.OffsetFetchResponseTopics
        part = topic.OffsetFetchResponsePartitions
    else:
        part = topic.OffsetFetchResponsePartition

    def topics(offsets: dict[TopicPartition, tuple[Any, int]]) -> list[Any]:
        return [
            topic(
                name=name,
                partitions=[
                    part(
                        partition_index=number,
                        committed_offset=-1 if each is None else each.offset,
                        committed_leader_epoch=-1 if each is None else each.leader_epoch,
                        metadata=None if each is None else each.metadata,
                        error_code=code,
                    )
                    for number, (each, code) in parts
                ],
            )
            for name, parts in by_topic(offsets).items()
        ]

    if version < 8:
        ((code, offsets),) = groups.values()
        return kind(throttle_time_ms=5, topics=topics(offsets), error_code=code)
    group = kind.OffsetFetchResponseGroup
    return kind(
        throttle_time_ms=5,
        groups=[
            group(group_id=name, topics=topics(offsets), error_code=code)
            for name, (code, offsets) in groups.items()
        ],
    )


_errors = st.sampled_from([0, 0, 0, 88])
_found = st.dictionaries(_places, st.tuples(st.none() | _committed, _errors), max_size=5)


@pytest.mark.parametrize("version", FETCHES)
@given(first=_found, second=_found, code=st.sampled_from([0, 16, 69]))
def test_the_offsets_of_groups(version: int, first: Any, second: Any, code: int) -> None:
    groups = {"g": (code, first), LONG: (0, second)} if version >= 8 else {"g": (code, first)}
    data = memoryview(fetched(version, groups).encode(version=version))

    answer = FetchOffsets(["g"]).decode(data, version)

    assert answer.throttle_time_ms == (5 if version >= 3 else 0)
    assert [each.group for each in answer.groups] == list(groups)
    for each, (error, offsets) in zip(answer.groups, groups.values(), strict=True):
        assert each.offsets == {
            at: one if version >= 5 else Committed(offset=one.offset, metadata=one.metadata)
            for at, (one, _) in offsets.items()
            if one is not None
        }
        codes = [error, *(code for _, code in offsets.values())]
        assert [each for each in each.errors if each] == [code for code in codes if code]


def test_no_text_at_all_and_fields_of_later_versions() -> None:
    tags = b"\x01\x09\x02ab"
    part = b"\0\0\0\3" + (42).to_bytes(8) + (6).to_bytes(4) + b"\0" + b"\0\0" + tags
    topic = b"\x02" + b"\x02t" + b"\x02" + part + tags
    answer = FetchOffsets(["g"]).decode(
        memoryview(b"\0\0\0\0" + b"\x02" + b"\x02g" + topic + b"\0\0" + tags + tags), 8
    )
    ((group, offsets, errors),) = answer.groups
    assert (group, offsets) == ("g", {TopicPartition("t", 3): Committed(offset=42, leader_epoch=6)})
    assert not any(errors)
    commit = b"\0\0\0\0" + b"\x02" + b"\x02t" + b"\x02" + b"\0\0\0\3\0\x10" + tags + tags + tags
    assert CommitOffsets("g", {}).decode(memoryview(commit), 9).errors == {
        TopicPartition("t", 3): 16
    }


@pytest.mark.parametrize("version", FETCHES)
def test_an_answer_that_ends_too_early_is_no_answer(version: int) -> None:
    committed = Committed(offset=42, metadata="m")
    data = bytes(
        fetched(version, {"g": (0, {TopicPartition("t", 0): (committed, 0)})}).encode(
            version=version
        )
    )
    # The last byte of a flexible version has tags that are not read.
    for end in range(len(data) - 1):
        with pytest.raises((IndexError, ValueError, struct.error)):
            FetchOffsets(["g"]).decode(memoryview(data[:end]), version)
