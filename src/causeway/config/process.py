"""The keys of a process, and questions about `spark.*`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from causeway.config.key_table import LIVE, Applies, KeyTable
from causeway.config.key_table import key as _key
from causeway.config.values import (
    ADDRESS,
    COUNT,
    HEADER,
    LIST,
    LONG_MAX,
    MILLIS,
    TEXT,
    TOKEN,
    Secret,
    choice,
    whole,
)


def _seconds(ms: int) -> float | None:
    return None if ms < 0 else ms / 1000


def _millis(seconds: float | None) -> int:
    return -1 if seconds is None else round(seconds * 1000)


def _unless_negative(number: int) -> int | None:
    return None if number < 0 else number


def _or_negative(number: int | None) -> int:
    return -1 if number is None else number


SPARK = Applies(restart="Spark reads its settings when it starts")
_CORES = Applies(restart="Spark's cores for lanes are set when it starts")
_LANES = Applies(restart="a lane gets this value when it starts")
_SERVER = Applies(restart="the server of the run is set up when the process starts")


@dataclass(frozen=True, kw_only=True)
class HttpSettings(KeyTable, applies=_SERVER):
    """The server in a run. `port`: 0 for any free port, None for no server. `certificate`, `key`
    and `client_ca` are paths of PEM files, which the server reads when it starts."""

    port: int | None = _key(
        "causeway.http.port",
        whole(0, 65535, -1).then(_unless_negative, _or_negative),
        8490,
        "Port for metrics, the REST API and probes. 0: any free port, which the run prints; -1: no"
        " port.",
    )
    host: str = _key(
        "causeway.http.host",
        TEXT,
        "127.0.0.1",
        "Address for that port. An address that other machines reach needs TLS, and a token or"
        " client certificates.",
    )
    token: Secret | None = _key(
        "causeway.http.token",
        TOKEN,
        None,
        "Token that clients must send as `Authorization: Bearer …`: at least 16 characters, such as"
        " `${env:VAR}`.",
    )
    certificate: str | None = _key(
        "causeway.http.tls.certificate",
        TEXT,
        None,
        "PEM file with the server's certificate and its chain, for https. It is read again when it"
        " changes.",
    )
    key: str | None = _key(
        "causeway.http.tls.key",
        TEXT,
        None,
        "PEM file with the certificate's private key, without a password.",
    )
    client_ca: str | None = _key(
        "causeway.http.tls.client.ca",
        TEXT,
        None,
        "PEM file with certificates: only clients with a certificate that one of them has signed"
        " may connect.",
    )


@dataclass(frozen=True, kw_only=True)
class WebhookSettings(KeyTable, applies=LIVE):
    """Where the leading driver posts events."""

    url: Secret = _key(
        "causeway.webhook.url",
        ADDRESS.then(Secret),
        None,
        "URL to which the leading driver posts events, as JSON.",
    )
    token: Secret | None = _key(
        "causeway.webhook.token",
        HEADER,
        None,
        "Token that is sent there as `Authorization: Bearer …`.",
    )
    secret: Secret | None = _key(
        "causeway.webhook.secret",
        TEXT.then(Secret),
        None,
        "Key of the signature (HMAC, SHA-256) of the posts.",
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings(KeyTable):
    """The keys of the whole process that only Causeway has."""

    lanes: int | None = _key(
        "causeway.lanes",
        COUNT,
        None,
        "Number of lanes (Spark tasks) that copy. Default: one for each two cores of this machine,"
        " and as many as a transform wants; N for local[N]; one for each core of a Spark cluster.",
        applies=_CORES,
    )
    progress_interval_s: float = _key(
        "causeway.progress.interval.ms",
        MILLIS.then(_seconds, _millis),
        1000,
        "How often progress is written to the target.",
        applies=LIVE,
    )
    lease_s: float = _key(
        "causeway.lease.ms",
        whole(1000, 3_600_000).then(_seconds, _millis),
        10_000,
        "How long a lane, or a leading driver, works without a sign of life from the other end.",
        applies=_LANES,
    )
    deleted_topics_retention_s: float | None = _key(
        "causeway.deleted.topics.retention.ms",
        whole(0, LONG_MAX, -1).then(_seconds, _millis),
        7 * 24 * 3600 * 1000,
        "How long the status shows topics that were deleted on the source; -1: for ever.",
        applies=LIVE,
    )
    connections: int = _key(
        "causeway.connections",
        whole(1, 64),
        2,
        "Connections of a lane to each target broker.",
        applies=_LANES,
    )
    in_flight: int | None = _key(
        "causeway.in.flight",
        whole(1, 1000),
        None,
        "Produce requests in flight on a connection. Default: 16, or 16 for each 5 ms of the round"
        " trip.",
        applies=_LANES,
    )
    lane_buffer_bytes: int | None = _key(
        "causeway.lane.buffer.bytes",
        whole(1 << 20, 1 << 40),
        None,
        "Maximum bytes of batches that a lane holds in memory. Default: 64 MiB, or 256 MiB for a"
        " source with a long round trip.",
        applies=_LANES,
    )
    metrics_port: int | None = _key(
        "causeway.metrics.port",
        whole(1, 65535),
        None,
        "Port for Prometheus. Default: none.",
        applies=_SERVER,
    )
    metrics_host: str = _key(
        "causeway.metrics.host",
        TEXT,
        "127.0.0.1",
        "Address for that port. Only this machine can read there, unless you set another address,"
        " such as 0.0.0.0 for all.",
        applies=_SERVER,
    )
    metrics_names: tuple[str, ...] = _key(
        "causeway.metrics.names",
        LIST,
        "",
        "More host names that clients may use for that port, such as the name of a Kubernetes"
        " service: `causeway.mirrors.svc`. This machine's name and addresses are always allowed;"
        " requests with other host names are refused.",
        applies=_SERVER,
    )
    reload: Literal["on-change", "on-request"] = _key(
        "causeway.reload",
        choice("on-change", "on-request"),
        "on-request",
        "When a running driver puts its changed file in force: as soon as it notices the change"
        " (`on-change`), or when SIGHUP or `causeway reload` asks for it (`on-request`; [changes"
        " without a restart](../how-to/operations.md#change-the-file)).",
        applies=LIVE,
    )
    http: HttpSettings = HttpSettings(port=None)
    webhook: WebhookSettings | None = None  # its `url` is set


# The same keys in seconds, as most of MirrorMaker 2's intervals are.
IN_SECONDS = {
    "causeway.progress.interval.seconds": "causeway.progress.interval.ms",
    "causeway.lease.seconds": "causeway.lease.ms",
}


def in_millis(seconds: str) -> str:
    """Returns a number of seconds as a text of milliseconds. Empty for other texts."""
    try:
        number = float(seconds)
    except ValueError:
        return ""
    return str(round(number * 1000)) if 0 < number < 1e9 else ""


def is_local(spark: Mapping[str, str | Secret]) -> bool:
    """Returns whether Spark of these `spark.*` runs on this machine alone."""
    return spark_text(spark, "spark.master", "local[*]").startswith("local")


def spark_text(spark: Mapping[str, str | Secret], name: str, default: str) -> str:
    """Returns one of these `spark.*` in clear text."""
    value = spark.get(name, default)
    return value.reveal() if isinstance(value, Secret) else value


def is_loopback(host: str) -> bool:
    """Returns whether only this machine reaches `host`. No name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
