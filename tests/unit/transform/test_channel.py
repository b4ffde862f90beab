"""The frames between a lane and a stage, and the sealed socket that they go over."""

from __future__ import annotations

import socket
from array import array

import pytest

from causeway.records import Batch
from causeway.sealed import MessageStream
from causeway.transform import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    OutletBatch,
    Refusal,
    SealedConnection,
    Setup,
    WaitingForRegistry,
)
from causeway.transform.channel import decode, encode

_DENSE = Batch(b"payload", 4, 100, 200, 3, 10, 13, 7)
_GAPS = Batch(b"\0" * 9, 0, -1, -1, 3, 20, 30, 7, array("q", [20, 20, 25]))
_FRAMES: list[Frame] = [
    Greeting("A->B/pii@1", "2", "sink"),
    Setup({"pepper": "s3cret"}, {"url": "http://127.0.0.1:1"}),
    WaitingForRegistry("it does not answer in time"),
    Chunk(1, "orders", 3, 30, (_DENSE, _GAPS)),
    ChunkOutcome(
        1,
        (OutletBatch(None, None, _DENSE), OutletBatch("eu", 2, _GAPS)),
        (Refusal(28, "no"),),
        6,
        6,
        1,
        2,
        (4, 0, 1),
        (2,),
    ),
    ChunkOutcome(2, ()),
]


def test_frames_come_out_as_they_went_in_however_they_are_cut() -> None:
    stream = b"".join(map(encode, _FRAMES))
    for step in (1, 7, len(stream)):
        reader, found = MessageStream(decode), []
        for at in range(0, len(stream), step):
            reader.feed(stream[at : at + step])
            found += list(reader.messages())
        assert found == _FRAMES


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(_FRAMES[1])


def _ends(secret: str, other: str) -> tuple[SealedConnection, SealedConnection]:
    one, two = socket.socketpair()
    return SealedConnection(one, secret, lane=True), SealedConnection(two, other, lane=False)


def test_both_ends_of_a_connection_hear_each_other() -> None:
    lane, worker = _ends("k", "k")
    heard: dict[str, list[Frame]] = {"lane": [], "worker": []}
    large = Chunk(3, "t", 0, 1, (_DENSE._replace(payload=bytes(3_000_000)),))
    for frame in (*_FRAMES, large):
        lane.send(frame)
        worker.send(frame)
    while min(map(len, heard.values())) <= len(_FRAMES):
        heard["lane"] += lane.wait(1)
        heard["worker"] += worker.wait(1)
        lane.flush()
        worker.flush()
    assert heard["lane"] == heard["worker"] == [*_FRAMES, large]
    assert lane.authenticated
    worker.close()
    with pytest.raises(ConnectionError):
        lane.receive()


def test_a_connection_without_the_secret_is_refused() -> None:
    lane, stranger = _ends("k", "wrong")
    stranger.send(_FRAMES[0])
    lane.flush()
    stranger.wait(1)
    with pytest.raises(ConnectionError, match="secret"):
        lane.wait(1)
    assert not lane.authenticated
