"""librdkafka's configuration, as our own client reads it.

Most properties that people set are known here. A side whose configuration has any other property,
or a value that is not understood, is written to by librdkafka itself: no configuration that works
there stops working.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causeway.config import ClientSettings, SaslSettings, Secret, TlsSettings
from causeway.producer.encode import CODECS, Packer

_MOST_REQUESTS = 5  # a broker remembers as many batches of a producer
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CONTROL_MS = 10_000  # a question that is not answered so long is asked again, and told of
_CONNECT_MS = 10_000
_HIGHEST_LEVEL = 12  # that librdkafka takes
_HIGHEST_GZIP = 9

# What is known, and does not change what our client does: it batches what was taken together,
# looks up leaders when it needs them, and fails no record for its age.
_WITHOUT_EFFECT = frozenset(
    (
        "acks", "batch.num.messages", "batch.size", "enable.gapless.guarantee",
        "enable.idempotence", "error_cb", "linger.ms", "log_level", "log.connection.close",
        "message.copy.max.bytes", "message.max.bytes", "message.timeout.ms", "metadata.max.age.ms",
        "queue.buffering.backpressure.threshold", "queue.buffering.max.ms",
        "socket.keepalive.enable", "socket.nagle.disable",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse",
    )
)  # fmt: skip
_READ = frozenset(
    (
        "bootstrap.servers", "metadata.broker.list", "client.id", "compression.codec",
        "compression.level", "compression.type", "enable.ssl.certificate.verification",
        "max.in.flight", "max.in.flight.requests.per.connection", "queue.buffering.max.kbytes",
        "queue.buffering.max.messages", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
        "request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.mechanism",
        "sasl.mechanisms", "sasl.password", "sasl.username", "security.protocol",
        "socket.connection.setup.timeout.ms", "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes", "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem",
        "ssl.certificate.location", "ssl.certificate.pem", "ssl.endpoint.identification.algorithm",
        "ssl.key.location", "ssl.key.pem", "topic.metadata.propagation.max.ms",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSettings:
    """`retry_s`: the first pause after a failure, and the longest. `unknown_s`: so long a topic may
    be unknown that was there. `most_records`, `most_bytes`: that may wait for their answers."""

    client: ClientSettings
    packer: Packer
    most_requests: int
    most_records: int
    most_bytes: int
    request_timeout_ms: int
    answer_timeout_s: float
    retry_s: tuple[float, float]
    unknown_s: float


class _UnknownError(Exception):
    """Librdkafka is to judge."""


def wire_settings(name: str, given: Mapping[str, Any]) -> WireSettings | None:
    """Of the side `name`; None where our client cannot be told all of it."""
    if not given.keys() <= _WITHOUT_EFFECT | _READ:
        return None
    try:
        return _read(name, given)
    except (_UnknownError, OSError, ValueError, TypeError):
        return None


def _read(name: str, given: Mapping[str, Any]) -> WireSettings:
    def whole(*keys: str, default: int, least: int = 0) -> int:
        found = int(_either(given, keys, default))
        if found < least:
            raise _UnknownError
        return found

    request_ms = whole("request.timeout.ms", default=30_000, least=1)
    tls = sasl = None
    protocol = str(given.get("security.protocol", "plaintext")).upper()
    if protocol not in _PROTOCOLS:
        raise _UnknownError
    if protocol.endswith("SSL"):
        tls = _tls(given)
    if protocol.startswith("SASL"):
        sasl = _sasl(given)
    client = ClientSettings(
        alias=name,
        bootstrap=_bootstrap(_either(given, ("bootstrap.servers", "metadata.broker.list"), "")),
        protocol=protocol,  # type: ignore[arg-type]
        tls=tls,
        sasl=sasl,
        client_id=str(given.get("client.id", "rdkafka")),
        connect_timeout_ms=whole(
            "socket.connection.setup.timeout.ms", default=_CONNECT_MS, least=1
        ),
        request_timeout_ms=min(_CONTROL_MS, request_ms),
        receive_buffer_bytes=whole("socket.receive.buffer.bytes", default=0) or -1,
        send_buffer_bytes=whole("socket.send.buffer.bytes", default=0) or -1,
    )
    first_ms = whole("retry.backoff.ms", "reconnect.backoff.ms", default=100, least=1)
    most_ms = whole("retry.backoff.max.ms", default=1000, least=1)
    return WireSettings(
        client=client,
        packer=_packer(given),
        most_requests=min(
            _MOST_REQUESTS,
            whole("max.in.flight.requests.per.connection", "max.in.flight", default=5, least=1),
        ),
        most_records=whole("queue.buffering.max.messages", default=100_000) or 2**31,
        most_bytes=whole("queue.buffering.max.kbytes", default=1 << 20, least=1) << 10,
        request_timeout_ms=request_ms,
        answer_timeout_s=max(whole("socket.timeout.ms", default=60_000, least=1), request_ms)
        / 1000,
        retry_s=(first_ms / 1000, max(first_ms, most_ms) / 1000),
        unknown_s=whole("topic.metadata.propagation.max.ms", default=30_000) / 1000,
    )


def _either(given: Mapping[str, Any], keys: tuple[str, ...], default: Any) -> Any:
    """Where two names of a property are given, which counts is librdkafka's to say."""
    found = [given[key] for key in keys if key in given]
    if len(found) > 1:
        raise _UnknownError
    return found[0] if found else default


def _bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in str(text).split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon:
            host, port = port, "9092"
        if not host or "/" in host or (":" in host and not host.startswith("[")):
            raise _UnknownError
        found.append((host.strip("[]"), int(port)))
    return tuple(found)


def _packer(given: Mapping[str, Any]) -> Packer:
    codec = CODECS.get(str(_either(given, ("compression.type", "compression.codec"), "none")))
    if codec is None:
        raise _UnknownError
    level = int(given.get("compression.level", -1))
    if not -1 <= level <= _HIGHEST_LEVEL:
        raise _UnknownError
    if codec == CODECS["gzip"]:  # has no higher one, and librdkafka means it by those
        level = min(level, _HIGHEST_GZIP)
    return Packer(codec, None if level < 0 else level)


def _sasl(given: Mapping[str, Any]) -> SaslSettings:
    mechanism = str(_either(given, ("sasl.mechanism", "sasl.mechanisms"), "GSSAPI"))
    if mechanism not in _MECHANISMS or not {"sasl.username", "sasl.password"} <= given.keys():
        raise _UnknownError
    return SaslSettings(
        mechanism=mechanism,  # type: ignore[arg-type]
        username=str(given["sasl.username"]),
        password=Secret(str(given["sasl.password"])),
    )


def _tls(given: Mapping[str, Any]) -> TlsSettings:
    if str(given.get("enable.ssl.certificate.verification", "true")).lower() != "true":
        raise _UnknownError
    check = str(given.get("ssl.endpoint.identification.algorithm", "https"))
    if check not in ("https", "none"):
        raise _UnknownError

    def pem(what: str) -> str | None:
        read: Callable[[str], str] = lambda path: Path(path).read_text(encoding="ascii")  # noqa: E731
        text, path = given.get(f"ssl.{what}.pem"), given.get(f"ssl.{what}.location")
        if text is not None and path is not None:
            raise _UnknownError
        return str(text) if text is not None else read(str(path)) if path is not None else None

    key = pem("key")
    return TlsSettings(
        ca_pem=pem("ca"),
        cert_pem=pem("certificate"),
        key_pem=Secret(key) if key is not None else None,
        verify_hostname=check == "https",
    )
