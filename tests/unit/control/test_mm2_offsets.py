"""MirrorMaker 2's positions, byte for byte as Connect keeps them."""

from __future__ import annotations

from typing import cast

from causeway.control import Copied, MirrorMakerOffsets, UnconfirmedCopy
from causeway.link_topics import KeyValue, TopicLog
from causeway.model import TopicPartition

KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":2,"topic":"orders"}]'


class Log:
    def __init__(self, count: int, newest: dict[bytes, bytes] | None = None) -> None:
        self._count = count
        self._newest = newest or {}
        self.written: list[tuple[int, KeyValue]] = []

    def partitions(self) -> int:
        return self._count

    def keep_compacted(self, partitions: int | None) -> None:
        assert partitions is None, "Connect has 25 of them"

    def newest(self) -> dict[bytes, bytes]:
        return self._newest

    def append(self, records: list[KeyValue], partition: int) -> None:
        self.written += [(partition, record) for record in records]


def offsets(log: Log) -> MirrorMakerOffsets:
    return MirrorMakerOffsets(cast(TopicLog, log), "A")


def test_read() -> None:
    log = Log(
        25,
        {
            KEY: b'{"offset":41}',
            KEY.replace(b'"A"', b'"C"'): b'{"offset":7}',
            KEY.replace(b"Source", b"Checkpoint"): b'{"offset":7}',
            b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A"}]': b'{"offset":0}',
            b"no JSON": b"{}",
            KEY.replace(b"2", b"3"): b'{"offset":null}',
        },
    )
    assert offsets(log).read() == {TopicPartition("orders", 2): (41, False)}


def test_written_as_the_last_offset_copied_and_only_what_is_new() -> None:
    log = Log(1)
    mirror_maker = offsets(log)
    at = TopicPartition("orders", 2)
    mirror_maker.write({at: 42, TopicPartition("orders", 0): 0})
    mirror_maker.write({at: 42})
    assert log.written == [(0, (KEY, b'{"offset":41,"writer":"causeway"}'))]
    assert offsets(Log(1, dict([log.written[0][1]]))).read() == {at: (41, True)}  # type: ignore[list-item]


def test_our_own_entries_are_removed_and_no_others() -> None:
    other = KEY.replace(b"2", b"3")
    log = Log(1, {KEY: b'{"offset":41,"writer":"causeway"}', other: b'{"offset":7}'})
    at = TopicPartition("orders", 2)
    offsets(log).remove([at, at._replace(partition=3), at._replace(partition=4)])
    assert log.written == [(0, (KEY, None))]


def test_the_key_decides_the_partition_as_in_java() -> None:
    log = Log(25)
    offsets(log).write({TopicPartition("orders", 2): 42})
    # murmur2 of the key, as org.apache.kafka.common.utils.Utils computes it, modulo 25.
    from kafka.partitioner.default import murmur2

    assert [partition for partition, _ in log.written] == [(murmur2(KEY) & 0x7FFFFFFF) % 25]


def test_nothing_is_written_where_mirror_maker_never_ran() -> None:
    log = Log(0)
    assert not offsets(log).is_there()
    assert offsets(Log(1)).is_there()
    offsets(log).write({TopicPartition("orders", 2): 42})
    assert not log.written


def test_deeply_nested_json_is_no_position() -> None:
    deep = b"[" * 200_000
    assert offsets(Log(25, {KEY: deep, deep: b'{"offset":41}'})).read() == {}


def test_a_connector_of_another_name_has_positions_of_its_own() -> None:
    """As behind Strimzi, where all connectors share one topic."""
    named = KEY.replace(b"MirrorSourceConnector", b"A->B.MirrorSourceConnector")
    log = Log(1, {KEY: b'{"offset":1}', named: b'{"offset":41}'})
    book = MirrorMakerOffsets(cast(TopicLog, log), "A", "A->B.MirrorSourceConnector")
    at = TopicPartition("orders", 2)
    assert book.read() == {at: (41, False)}
    book.write({at: 43})
    assert log.written == [(0, (named, b'{"offset":42,"writer":"causeway"}'))]


def test_another_alias_or_connector_is_believed_only_with_the_records() -> None:
    """The file may call the source otherwise than it was called, or not at all, and a connector in
    a Connect cluster has any name."""
    at = TopicPartition("orders", 2)
    east = KEY.replace(b'"A"', b'"east"')
    nameless = KEY.replace(b'"A"', b'""')
    named = KEY.replace(b"MirrorSourceConnector", b"my-mirror")

    def book(newest: dict[bytes, bytes]) -> dict[TopicPartition, Copied]:
        log = cast(TopicLog, Log(1, newest))
        return MirrorMakerOffsets(log, "east", others=("A", "")).read()

    assert book({east: b'{"offset":41}', KEY: b'{"offset":7}'}) == {at: (41, False)}
    assert not isinstance(book({east: b'{"offset":41}'})[at], UnconfirmedCopy)
    for key in (KEY, nameless, named):
        found = book({key: b'{"offset":41}'})
        assert found == {at: (41, False)}
        assert isinstance(found[at], UnconfirmedCopy)
    two = {named: b'{"offset":41}', named.replace(b"my", b"your"): b'{"offset":7}'}
    assert book(two) == {}, "which of them wrote to this target is not certain"
    assert book({**two, KEY: b'{"offset":5}'}) == {at: (5, False)}


def test_positions_are_written_under_the_name_that_mirror_maker_has() -> None:
    log = Log(1)
    book = MirrorMakerOffsets(cast(TopicLog, log), "", others=("A",))
    book.write({TopicPartition("orders", 2): 42})
    assert [key for _, (key, _) in log.written] == [KEY.replace(b'"A"', b'""')]
