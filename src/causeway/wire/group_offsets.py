"""Writes and reads the messages for offsets of groups, without kafka-python: OffsetFetch (API 9,
versions 2 to 8) and OffsetCommit (API 8, versions 2 to 9).

In each round, group sync reads and writes an offset for each group and partition. kafka-python
would make an object for each offset, which costs more than the rest of the round
(docs/decisions/0077).
Formats: OffsetFetchRequest.json, OffsetFetchResponse.json, OffsetCommitRequest.json and
OffsetCommitResponse.json of Apache Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from struct import Struct as Layout
from typing import Any, NamedTuple

from msgspec import Struct

from causeway.errors import ProtocolError
from causeway.model import TopicPartition
from causeway.wire import apis
from causeway.wire.varint import put_uvarint, skip_tags, uvarint

_FETCH_IS_FLEXIBLE, _COMMIT_IS_FLEXIBLE = 6, 8
_SEVERAL_GROUPS = 8  # OffsetFetch
_NO_MEMBER = -1
_KEPT_BY_DEFAULT = -1

_HEADER = Layout(">hhi")
_SHORT, _INT, _LONG = Layout(">h"), Layout(">i"), Layout(">q")
_OFFSET = Layout(">iq")  # partition and offset
_OFFSET_AND_EPOCH = Layout(">iqi")
_RESULT = Layout(">ih")
# Of flexible versions: a partition without a text and tags. Nearly all are like this.
_FOUND = Layout(">iqiBhB")  # partition, offset, epoch, length of the text, error, tags
_TO_COMMIT = Layout(">iqiBB")  # partition, offset, epoch, length of the text, tags
_COMMITTED = Layout(">ihB")  # partition, error, tags
_NO_TEXT, _NO_TAGS = 1, b"\x00"


class Committed(Struct, frozen=True, kw_only=True, gc=False):
    """`offset`: the next offset to read. `leader_epoch`: the epoch of the record before it, -1 if
    unknown. `metadata`: the group's own text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class FoundOffsets(NamedTuple):
    """The offsets that `group` has committed. `errors`: the error codes of the group and of its
    partitions."""

    group: str
    offsets: dict[TopicPartition, Committed]
    errors: Sequence[int]


class FoundGroups(NamedTuple):
    groups: list[FoundOffsets]
    throttle_time_ms: int


class CommitAnswer(NamedTuple):
    """`errors`: the error codes of the partitions that are not done."""

    errors: dict[TopicPartition, int]
    throttle_time_ms: int


class _Places(dict[int, TopicPartition]):
    """The partitions of a topic: one object for all groups."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __missing__(self, partition: int) -> TopicPartition:
        found = self[partition] = TopicPartition(self._topic, partition)
        return found


class GroupRequest:
    """A request, and the reader of its answer. Connection uses it like a class of kafka-python, so
    it has the same names."""

    name: str
    API_KEY: int
    max_version: int
    _min_version: int
    _max_version: int
    _flexible: int

    def __init_subclass__(cls, api: apis.Api, flexible: int) -> None:
        """`flexible`: the first version with short lengths and tags."""
        cls.name, cls.API_KEY, cls._flexible = api.name, api.key, flexible
        cls._min_version, cls._max_version, cls.max_version = api.lowest, api.highest, api.highest

    def flexible_version_q(self, version: int) -> bool:
        return version >= self._flexible

    def frame(self, version: int, correlation_id: int, client_id: bytes) -> bytearray:
        """Returns the framed request."""
        out = bytearray(4)
        out += _HEADER.pack(self.API_KEY, version, correlation_id)
        out += len(client_id).to_bytes(2) + client_id
        if self.flexible_version_q(version):
            out += _NO_TAGS
        self.put(out, version)
        out[:4] = (len(out) - 4).to_bytes(4)
        return out

    def put(self, out: bytearray, version: int) -> None:
        """Appends the body."""
        raise NotImplementedError

    def decode(self, data: memoryview, version: int) -> Any:
        """Reads the answer, from the end of its header on. Raises any error if it is malformed."""
        raise NotImplementedError


class FetchOffsets(GroupRequest, api=apis.OFFSET_FETCH, flexible=_FETCH_IS_FLEXIBLE):
    """Asks for all offsets that `groups` have committed; before version 8 for one group. The answer
    has no offsets that a transaction is about to replace."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups

    def put(self, out: bytearray, version: int) -> None:
        flexible = self.flexible_version_q(version)
        if version >= _SEVERAL_GROUPS:
            put_uvarint(out, len(self._groups) + 1)
        for group in self._groups:
            _put_text(out, group, flexible)
            # Without a list of topics, the answer has all topics.
            out += b"\x00" if flexible else _INT.pack(-1)
            if version >= _SEVERAL_GROUPS:
                out += _NO_TAGS
        if version >= 7:
            out.append(1)  # stable offsets only
        if flexible:
            out += _NO_TAGS

    def decode(self, data: memoryview, version: int) -> FoundGroups:
        throttle_ms, at = _throttle(data, version)
        topics: dict[str, _Places] = {}
        found: list[FoundOffsets] = []
        if version < _SEVERAL_GROUPS:
            offsets, errors, at = _committed(data, at, version, topics)
            errors.insert(0, *_SHORT.unpack_from(data, at))
            return FoundGroups([FoundOffsets(self._groups[0], offsets, errors)], throttle_ms)
        count, at = _count(data, at, flexible=True)
        for _ in range(count):
            group, at = _text(data, at, flexible=True)
            offsets, errors, at = _committed(data, at, version, topics)
            errors.insert(0, *_SHORT.unpack_from(data, at))
            at = skip_tags(data, at + _SHORT.size)
            found.append(FoundOffsets(group, offsets, errors))
        return FoundGroups(found, throttle_ms)


class CommitOffsets(GroupRequest, api=apis.OFFSET_COMMIT, flexible=_COMMIT_IS_FLEXIBLE):
    """Commits `offsets` for `group`, which has no members. `decode` raises ProtocolError if the
    answer leaves out a partition."""

    def __init__(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        self._group, self._offsets = group, offsets

    def put(self, out: bytearray, version: int) -> None:
        flexible = self.flexible_version_q(version)
        _put_text(out, self._group, flexible)
        out += _INT.pack(_NO_MEMBER)
        _put_text(out, "", flexible)
        if version >= 7:
            out += b"\x00" if flexible else _SHORT.pack(-1)  # no static member
        if version <= 4:
            out += _LONG.pack(_KEPT_BY_DEFAULT)
        topics: dict[str, list[bytes]] = defaultdict(list)
        for (topic, partition), one in self._offsets.items():
            if flexible and not one.metadata:
                part = _TO_COMMIT.pack(partition, one.offset, one.leader_epoch, _NO_TEXT, 0)
                topics[topic].append(part)
                continue
            if version >= 6:
                text = bytearray(_OFFSET_AND_EPOCH.pack(partition, one.offset, one.leader_epoch))
            else:
                text = bytearray(_OFFSET.pack(partition, one.offset))
            _put_text(text, one.metadata, flexible)
            topics[topic].append(bytes(text + _NO_TAGS) if flexible else bytes(text))
        _put_count(out, len(topics), flexible)
        for topic, parts in topics.items():
            _put_text(out, topic, flexible)
            _put_count(out, len(parts), flexible)
            out += b"".join(parts)
            if flexible:
                out += _NO_TAGS
        if flexible:
            out += _NO_TAGS

    def decode(self, data: memoryview, version: int) -> CommitAnswer:
        flexible = self.flexible_version_q(version)
        throttle_ms, at = _throttle(data, version)
        errors: dict[TopicPartition, int] = {}
        answered = 0
        topics, at = _count(data, at, flexible)
        for _ in range(topics):
            topic, at = _text(data, at, flexible)
            count, at = _count(data, at, flexible)
            answered += count
            for _ in range(count):
                if flexible:
                    partition, code, tags = _COMMITTED.unpack_from(data, at)
                    at += _COMMITTED.size
                    if tags:
                        at = skip_tags(data, at - 1)
                else:
                    partition, code = _RESULT.unpack_from(data, at)
                    at += _RESULT.size
                if code:
                    errors[TopicPartition(topic, partition)] = code
            if flexible:
                at = skip_tags(data, at)
        if answered < len(self._offsets):
            cause = "the answer leaves out partitions"
            raise ProtocolError("commit offsets of", f"group {self._group}", cause)
        return CommitAnswer(errors, throttle_ms)


def _committed(
    data: memoryview, at: int, version: int, topics: dict[str, _Places]
) -> tuple[dict[TopicPartition, Committed], list[int], int]:
    """Returns a group's offsets, the error codes of its partitions, and the position behind the
    topics. `topics`: the topics of other groups in the answer."""
    flexible = version >= _FETCH_IS_FLEXIBLE
    found: dict[TopicPartition, Committed] = {}
    errors: list[int] = []
    count, at = _count(data, at, flexible)
    for _ in range(count):
        topic, at = _text(data, at, flexible)
        places = topics.get(topic) or topics.setdefault(topic, _Places(topic))
        parts, at = _count(data, at, flexible)
        for _ in range(parts):
            metadata, epoch = "", -1
            if flexible:
                partition, offset, epoch, size, error, tags = _FOUND.unpack_from(data, at)
                at += _FOUND.size
                if size > _NO_TEXT or tags:
                    metadata, at = _text(data, at - _FOUND.size + _OFFSET_AND_EPOCH.size, flexible)
                    (error,) = _SHORT.unpack_from(data, at)
                    at = skip_tags(data, at + _SHORT.size)
            else:
                if version >= 5:
                    partition, offset, epoch = _OFFSET_AND_EPOCH.unpack_from(data, at)
                    at += _OFFSET_AND_EPOCH.size
                else:
                    partition, offset = _OFFSET.unpack_from(data, at)
                    at += _OFFSET.size
                metadata, at = _text(data, at, flexible)
                (error,) = _SHORT.unpack_from(data, at)
                at += _SHORT.size
            if error:
                errors.append(error)
            if offset >= 0:
                found[places[partition]] = Committed(
                    offset=offset, leader_epoch=epoch, metadata=metadata
                )
        if flexible:
            at = skip_tags(data, at)
    return found, errors, at


def _throttle(data: memoryview, version: int) -> tuple[int, int]:
    """Returns the throttle time in an answer, and the position behind it."""
    if version < 3:
        return 0, 0
    return _INT.unpack_from(data)[0], _INT.size


def _count(data: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    """Returns the length of a list, and the position behind it."""
    if flexible:
        count, at = uvarint(data, at)
        return count - 1, at
    return _INT.unpack_from(data, at)[0], at + _INT.size


def _text(data: memoryview, at: int, flexible: bool) -> tuple[str, int]:
    """Returns a text, empty if there is none, and the position behind it."""
    if flexible:
        size, at = uvarint(data, at)
        size -= 1
    else:
        (size,) = _SHORT.unpack_from(data, at)
        at += _SHORT.size
    end = at + max(0, size)
    return str(data[at:end], "utf-8"), end


def _put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        put_uvarint(out, count + 1)
    else:
        out += _INT.pack(count)


def _put_text(out: bytearray, value: str, flexible: bool) -> None:
    text = value.encode()
    if flexible:
        put_uvarint(out, len(text) + 1)
    else:
        out += _SHORT.pack(len(text))
    out += text
