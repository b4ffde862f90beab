"""Brokers that lack APIs of Kafka: a proxy before each hides them, or caps their versions.

    limits = Limits({DescribeProducersRequest.API_KEY: None, FetchRequest.API_KEY: 11})
    cluster = LocalCluster("B", advertised=Proxies(limits=limits))

The proxy takes the APIs out of what the broker answers to ApiVersions. It closes the connection
of a client that calls one of them all the same, as a broker does that does not know a request.
`limits.asked` has the versions of each API that clients have called.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

_API_VERSIONS = ApiVersionsRequest.API_KEY


class Limits:
    """`highest`: by API key, the highest version that clients may call; None: no version at all.
    It may change while the proxies run, for connections to come."""

    def __init__(self, highest: Mapping[int, int | None] | None = None) -> None:
        self.highest = dict(highest or {})
        self.asked: dict[int, set[int]] = defaultdict(set)
        self.refused: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def allows(self, key: int, version: int) -> bool:
        highest = self.highest.get(key, version)
        allowed = highest is not None and version <= highest
        with self._lock:
            self.asked[key].add(version)
            if not allowed:
                self.refused.append((key, version))
        return allowed


class Screen:
    """What flows over one connection; each of `up` and `down` belongs to one thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._up, self._down = b"", b""
        self._versions: dict[int, int] = {}  # of ApiVersions requests, by correlation id

    def up(self, chunk: bytes) -> bytes:
        """What may pass to the broker. Raises ConnectionRefusedError where a request may not."""
        frames, self._up = _frames(self._up + chunk)
        for frame in frames:
            key, version = int.from_bytes(frame[4:6]), int.from_bytes(frame[6:8])
            if not self._limits.allows(key, version):
                raise ConnectionRefusedError(f"API {key} version {version}")
            if key == _API_VERSIONS:
                self._versions[int.from_bytes(frame[8:12])] = version
        return b"".join(frames)

    def down(self, chunk: bytes) -> bytes:
        frames, self._down = _frames(self._down + chunk)
        return b"".join(self._answer(frame) for frame in frames)

    def _answer(self, frame: bytes) -> bytes:
        correlation_id = int.from_bytes(frame[4:8])
        version = self._versions.pop(correlation_id, None)
        if version is None:
            return frame
        answer: Any = ApiVersionsResponse.decode(frame[8:], version=version)
        if answer.error_code:
            return frame
        limited = ApiVersionsResponse(
            error_code=0, api_keys=[each for each in map(self._limited, answer.api_keys) if each]
        )
        limited.API_VERSION = version
        limited.with_header(correlation_id=correlation_id)
        return bytes(limited.encode(header=True, framed=True))

    def _limited(self, api: Any) -> Any | None:
        highest = self._limits.highest.get(api.api_key, api.max_version)
        if highest is None or highest < api.min_version:
            return None
        return ApiVersionsResponse.ApiVersion(
            api_key=api.api_key,
            min_version=api.min_version,
            max_version=min(highest, api.max_version),
        )


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole frames, each with its length, and what is left."""
    frames, at = [], 0
    while len(data) - at >= 4 and len(data) - at - 4 >= (size := int.from_bytes(data[at : at + 4])):
        frames.append(data[at : at + 4 + size])
        at += 4 + size
    return frames, data[at:]
