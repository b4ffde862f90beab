"""A relay that only relays: each batch as it comes, unchecked, uncopied, unnumbered, over the same
sockets. What a mirror takes beyond this is what its promises cost.

    python -m bench.bare SOURCE TARGET TOPIC MIRRORED END…      ends: of each partition of TOPIC

It starts at offset 0 of everything, and tells on a line of JSON what it took from its first request
to its last answer.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from causeway.config import ClientSettings
from causeway.wire import Connection, Fetched, FetchPosition, FetchSession, Stamped, fetch, produce

_HELD_BYTES = 64 * 1024 * 1024
# Larger answers would lie in new memory each.
_FETCH_BYTES, _PARTITION_BYTES = 8 * 1024 * 1024, 1024 * 1024
_REQUEST_BYTES = 4 * 1024 * 1024
_IN_FLIGHT = 5
_TIMEOUT_MS = 30_000
_LENGTH_AT, _DELTA_AT, _HEADER = 8, 23, 61
_BY_NAME_FETCH, _BY_NAME_PRODUCE = 12, 12


@dataclass(slots=True)
class _Relay:
    source: Connection
    target: Connection
    topic: bytes
    mirrored: bytes
    positions: list[int]
    ends: Sequence[int]
    held: list[deque[memoryview]] = field(default_factory=list)
    held_bytes: int = 0
    fetching: bool = False
    in_flight: int = 0

    def run(self) -> None:
        session = FetchSession(_BY_NAME_FETCH, b"bare", 500, 1, _FETCH_BYTES, read_committed=False)
        self.held = [deque() for _ in self.positions]
        poll = select.poll()
        while self.in_flight or self.held_bytes or self.positions != list(self.ends):
            if not self.fetching and self.held_bytes < _HELD_BYTES:
                self._ask(session)
            while self.in_flight < _IN_FLIGHT and self.held_bytes:
                self._send()
            for connection in (self.source, self.target):
                write = select.POLLOUT if connection.wants_write else 0
                poll.register(connection, select.POLLIN | write)
            for number, _ in poll.poll():
                if number == self.source.fileno():
                    self._fetched(session)
                else:
                    self.target.flush()
                    self._acknowledged()

    def _ask(self, session: FetchSession) -> None:
        for partition, position in enumerate(self.positions):
            session.read(FetchPosition(self.topic, partition, -1, position, -1, _PARTITION_BYTES))
        self.source.queue([session.build(self.source.next_correlation_id(), wait_ms=500)])
        self.source.flush()
        self.fetching = True

    def _fetched(self, session: FetchSession) -> None:
        for frame in self.source.receive():
            self.fetching = False
            error, partitions = session.parse(frame)
            assert not error, error
            for fetched in partitions:
                self._take(fetched)

    def _take(self, fetched: Fetched) -> None:
        assert not fetched.error, fetched.error
        records, at = fetched.records, 0
        while at + _HEADER <= len(records):
            size = 12 + int.from_bytes(records[at + _LENGTH_AT : at + 12])
            if at + size > len(records):
                break
            batch = records[at : at + size]
            first = int.from_bytes(batch[:_LENGTH_AT])
            last = int.from_bytes(batch[_DELTA_AT : _DELTA_AT + 4])
            self.positions[fetched.partition] = first + last + 1
            self.held[fetched.partition].append(batch)
            self.held_bytes += size
            at += size

    def _send(self) -> None:
        """A batch of each partition that has one."""
        batches: list[Stamped] = []
        size = 0
        for partition, held in enumerate(self.held):
            if held and size < _REQUEST_BYTES:
                batch = held.popleft()
                size += len(batch)
                header = bytes(_LENGTH_AT) + batch[_LENGTH_AT:_HEADER]  # base offset 0
                batches.append((self.mirrored, partition, header, batch[_HEADER:]))
        self.held_bytes -= size
        self.in_flight += 1
        number = self.target.next_correlation_id()
        request, _ = produce.build(number, _BY_NAME_PRODUCE, b"bare", _TIMEOUT_MS, batches)
        self.target.queue(request)
        self.target.flush()

    def _acknowledged(self) -> None:
        for frame in self.target.receive():
            self.in_flight -= 1
            answered = produce.parse(frame, _BY_NAME_PRODUCE)
            for result in answered.results.values():
                assert not result.error, result


def main(arguments: Sequence[str]) -> None:
    source, target, topic, mirrored, *ends = arguments
    relay = _Relay(
        source=_connect(source),
        target=_connect(target),
        topic=topic.encode(),
        mirrored=mirrored.encode(),
        positions=[0] * len(ends),
        ends=[int(end) for end in ends],
    )
    assert relay.source.api_version(fetch.API_KEY, _BY_NAME_FETCH) == _BY_NAME_FETCH
    begun, cpu = time.monotonic(), time.process_time()
    relay.run()
    took = {"seconds": time.monotonic() - begun, "cpu_s": time.process_time() - cpu}
    print(json.dumps(took))


def _connect(address: str) -> Connection:
    host, port = address.rsplit(":", 1)
    settings = ClientSettings(alias="bare", bootstrap=((host, int(port)),))
    return Connection.open(settings, host, int(port))


if __name__ == "__main__":
    main(sys.argv[1:])
