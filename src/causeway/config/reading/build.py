"""Parts of Settings that every kind of file makes in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from causeway.config.client_keys import ConsumerKeys
from causeway.config.control_settings import ControlSettings
from causeway.config.entries import Entry, Problems, read
from causeway.config.keys import IN_SECONDS, ControlKeys, HeartbeatKeys, RunKeys
from causeway.config.settings import (
    ClientSettings,
    FetchSettings,
    HttpSettings,
    RunSettings,
    Secret,
    WebhookSettings,
    is_local,
    is_loopback,
    spark_text,
)
from causeway.errors import ConfigError
from causeway.filters import compile_patterns, split_list
from causeway.patterns import Pattern

Entries = Mapping[str, Entry]
_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - to know them by
# What Spark's scripts pass to Java as arguments, in whatever way they get it.
_ARGUMENTS = re.compile(r"spark\.(driver|executor)\.(extra|default)(JavaOptions|ClassPath)")


def spark_settings(entries: Entries, problems: Problems) -> dict[str, str | Secret]:
    """`spark.*`, as it stands; what must not be shown as Secret."""
    found: dict[str, str | Secret] = {}
    for name, entry in entries.items():
        if not name.startswith("spark."):
            continue
        if entry.resolved and _ARGUMENTS.fullmatch(name):
            problems.add(
                f"{entry.place} becomes part of a command line, which every user of the machine"
                " can read: no ${...} there"
            )
        found[name] = Secret(entry.value) if entry.secret else entry.value
    return found


def open_spark(spark: Mapping[str, str | Secret]) -> list[str]:
    """A warning if these `spark.*` leave Spark's ports without authentication. Causeway turns it on
    for a local master; only a cluster's owner can do it for a cluster."""
    default = "true" if is_local(spark) else "false"
    if spark_text(spark, "spark.authenticate", default).strip().lower() == "true":
        return []
    return [
        "spark.authenticate is not true: everybody who reaches a port of Spark can stop this mirror"
        " or run code in it; set it to true (docs/how-to/spark.md)"
    ]


def fetch_settings(reader: Entries, problems: Problems) -> FetchSettings:
    """From the keys of a consumer, names without any prefix."""
    keys = read(ConsumerKeys, reader, problems)
    return FetchSettings(
        read_committed=keys.isolation_level == "read_committed",
        max_wait_ms=keys.fetch_max_wait_ms,
        min_bytes=keys.fetch_min_bytes,
        max_bytes=keys.fetch_max_bytes,
        max_partition_bytes=keys.max_partition_fetch_bytes,
        metadata_max_age_ms=keys.metadata_max_age_ms,
        start=keys.auto_offset_reset,
    )


def control_settings(own: Entries, problems: Problems) -> ControlSettings:
    """From the keys of a flow, names without any prefix."""
    keys = read(ControlKeys, own, problems)
    heartbeats = read(HeartbeatKeys, own, problems)
    runs = "checkpoints" not in keys.paused
    if keys.read_only_mirrors and "causeway.principal" not in own:
        # To deny writing to everybody would stop Causeway as well.
        problems.add(
            f"{own['causeway.read.only.mirrors'].place} needs causeway.principal,"
            " who Causeway is on the target, such as User:causeway"
        )
    return ControlSettings(
        groups=patterns(own, "groups", keys.groups, problems),
        groups_exclude=patterns(own, "groups.exclude", keys.groups_exclude, problems),
        refresh_groups_enabled=keys.refresh_groups_enabled,
        refresh_groups_interval_s=keys.refresh_groups_interval,
        emit_checkpoints_enabled=keys.emit_checkpoints_enabled and runs,
        emit_checkpoints_interval_s=keys.emit_checkpoints_interval,
        checkpoints_replication_factor=keys.checkpoints_replication_factor,
        sync_group_offsets_enabled=keys.sync_group_offsets_enabled and runs,
        sync_group_offsets_interval_s=keys.sync_group_offsets_interval,
        emit_offset_syncs_enabled=keys.emit_offset_syncs_enabled,
        offset_lag_max=keys.offset_lag_max,
        offset_syncs_topic_location=keys.offset_syncs_topic_location,
        offset_syncs_replication_factor=keys.offset_syncs_replication_factor,
        emit_heartbeats_enabled=heartbeats.enabled and "heartbeats" not in keys.paused,
        emit_heartbeats_interval_s=heartbeats.interval,
        heartbeats_replication_factor=heartbeats.replication_factor,
        # As MirrorMaker 2's source connector, which does that as well.
        sync_topic_acls_enabled=keys.sync_topic_acls_enabled and not records_paused(keys),
        sync_topic_acls_interval_s=keys.sync_topic_acls_interval,
        read_only_mirrors=keys.read_only_mirrors,
        principal=keys.principal,
        mm2_offsets=keys.mm2_offsets,
        mm2_offsets_topic=keys.mm2_offsets_topic or None,
        mm2_connector=keys.mm2_connector,
    )


def records_paused(keys: ControlKeys) -> bool:
    return "records" in keys.paused


def clear_text(clients: Iterable[ClientSettings]) -> list[str]:
    """Warnings of token endpoints that are asked without TLS over a network, which Java allows."""
    found = []
    for client in clients:
        endpoint = client.sasl.oauth.token_endpoint if client.sasl and client.sasl.oauth else ""
        parts = urlsplit(endpoint)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            found.append(
                f"the token endpoint of cluster {client.alias} is an http:// address: the client's"
                " secret and tokens can be read on the way; use https://"
            )
    return list(dict.fromkeys(found))


def patterns(own: Entries, name: str, value: str, problems: Problems) -> tuple[Pattern, ...]:
    """The list of regular expressions that key `name` has, as Kafka's filters read it."""
    try:
        return compile_patterns(value)
    except ConfigError as error:
        entry = own.get(name)
        problems.add(f"{entry.place}: {entry.told(error)}" if entry else f"{name}: {error}")
        return ()


def run_settings(entries: Entries, problems: Problems) -> RunSettings:
    """From `causeway.*` among `entries`; intervals may be given in `.ms` or `.seconds`."""
    own = dict(entries)
    for seconds, millis in IN_SECONDS.items():
        if seconds not in own or own[seconds].missing:
            continue
        entry = own[seconds]
        if millis in own:
            problems.add(f"{entry.place} and {own[millis].place} say the same twice")
        elif not _is_number(entry.value):
            problems.add(f"{entry.place} must be a number of seconds, not {entry.shown}")
        else:
            text = str(round(float(entry.value) * 1000))
            own[millis] = Entry(key=entry.key, value=text, line=entry.line)
    keys = read(RunKeys, own, problems)
    _check_ports(own, keys, problems)
    return RunSettings(
        lanes=keys.lanes,
        progress_interval_s=keys.progress_interval_ms / 1000,
        lease_s=keys.lease_ms / 1000,
        deleted_topics_retention_s=None
        if keys.deleted_topics_retention_ms < 0
        else keys.deleted_topics_retention_ms / 1000,
        connections=keys.connections,
        in_flight=keys.in_flight,
        lane_buffer_bytes=keys.lane_buffer_bytes,
        metrics_port=keys.metrics_port,
        metrics_host=keys.metrics_host,
        metrics_names=tuple(split_list(keys.metrics_names)),
        http=_http(own, keys, problems),
        webhook=_webhook(own, keys, problems),
    )


def _webhook(own: Entries, keys: RunKeys, problems: Problems) -> WebhookSettings | None:
    token, url = "causeway.webhook.token", keys.webhook_url
    if url is None:
        for name in (token, "causeway.webhook.secret"):
            if name in own and "causeway.webhook.url" not in own:
                problems.add(f"{own[name].place} needs causeway.webhook.url beside it")
        return None
    to = urlsplit(url)
    if keys.webhook_token and to.scheme == "http" and not is_loopback(to.hostname or ""):
        problems.add(
            f"{own[token].place} would be sent to an http:// address, for all to read on the way:"
            " use https://"
        )
    return WebhookSettings(
        url=Secret(url),
        token=Secret(keys.webhook_token) if keys.webhook_token else None,
        secret=Secret(keys.webhook_secret) if keys.webhook_secret else None,
    )


def _http(own: Entries, keys: RunKeys, problems: Problems) -> HttpSettings:
    """What others can reach must be able to tell who asks, and be unreadable on the way."""
    certificate, key = "causeway.http.tls.certificate", "causeway.http.tls.key"
    token, client_ca = "causeway.http.token", "causeway.http.tls.client.ca"
    said = {
        name
        for name in (certificate, key, token, client_ca)
        if name in own and (own[name].missing or own[name].value.strip())
    }
    for one, other in ((certificate, key), (key, certificate), (client_ca, certificate)):
        if one in said and other not in said:
            problems.add(f"{own[one].place} needs {other} beside it")
    if keys.http_port >= 0 and not is_loopback(keys.http_host):
        needs = [certificate, key] if certificate not in said else []
        if not said & {token, client_ca}:
            needs.append(f"{token} (or {client_ca})")
        if needs:
            problems.add(
                f"{own['causeway.http.host'].place} is an address that other machines reach:"
                f" set {' and '.join(needs)}, or leave it out to serve this machine alone"
            )
    return HttpSettings(
        port=None if keys.http_port < 0 else keys.http_port,
        host=keys.http_host,
        token=Secret(keys.http_token) if keys.http_token else None,
        certificate=keys.http_certificate,
        key=keys.http_key,
        client_ca=keys.http_client_ca,
    )


def _check_ports(own: Entries, keys: RunKeys, problems: Problems) -> None:
    """Two servers cannot listen on one address."""
    if keys.metrics_port is None or keys.metrics_port != keys.http_port:
        return
    hosts = {keys.metrics_host, keys.http_host}
    if len(hosts) == 1 or hosts & _ALL_ADDRESSES or all(map(is_loopback, hosts)):
        by_default = "" if "causeway.http.port" in own else ", by default"
        problems.add(
            f"{own['causeway.metrics.port'].place} is causeway.http.port{by_default}, too: leave it"
            " out, as that port has /metrics as well, or give one of them another"
        )


def _is_number(text: str) -> bool:
    try:
        return 0 < float(text) < 1e9
    except ValueError:
        return False
