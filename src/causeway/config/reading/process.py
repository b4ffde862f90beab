"""The settings of the process, of Spark, and warnings about both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from causeway.config.clients import ClientSettings
from causeway.config.entries import Entries, Entry, Problems, read
from causeway.config.process import (
    IN_SECONDS,
    HttpSettings,
    RunSettings,
    WebhookSettings,
    in_millis,
    is_local,
    is_loopback,
    spark_text,
)
from causeway.config.values import Secret

_ALL_ADDRESSES = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
# Spark's scripts pass these to Java as arguments.
_ARGUMENTS = re.compile(r"spark\.(driver|executor)\.(extra|default)(JavaOptions|ClassPath)")


def spark_settings(entries: Entries, problems: Problems) -> dict[str, str | Secret]:
    """Returns the keys `spark.*`, unchanged. A value that must not be shown is a Secret."""
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


def safety_warnings(
    clients: Iterable[ClientSettings], spark: Mapping[str, str | Secret]
) -> list[str]:
    """Returns warnings about token endpoints that clients call without TLS over a network, as Java
    can, and about ports of Spark without authentication. Causeway turns authentication on for a
    local master. Only a cluster's owner can do that for a cluster."""
    found = []
    for client in clients:
        endpoint = client.sasl.oauth.token_endpoint if client.sasl and client.sasl.oauth else ""
        parts = urlsplit(endpoint)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            found.append(
                f"the token endpoint of cluster {client.alias} is an http:// address: others can"
                " read the client's secret and tokens on the way; use https://"
            )
    default = "true" if is_local(spark) else "false"
    if spark_text(spark, "spark.authenticate", default).strip().lower() != "true":
        found.append(
            "spark.authenticate is not true: anyone who reaches a port of Spark can stop this"
            " mirror or run code in it; set it to true (docs/how-to/spark.md)"
        )
    return list(dict.fromkeys(found))


def run_settings(entries: Entries, problems: Problems) -> RunSettings:
    """Returns the settings in the keys `causeway.*` of `entries`. Intervals may be given in `.ms`
    or `.seconds`."""
    own = dict(entries)
    for seconds, millis in IN_SECONDS.items():
        if seconds not in own or own[seconds].missing:
            continue
        entry = own[seconds]
        if millis in own:
            problems.add(f"{entry.place} and {own[millis].place} set the same value twice")
        elif text := in_millis(entry.value):
            own[millis] = Entry(key=entry.key, value=text, line=entry.line)
        else:
            problems.add(f"{entry.place} must be a number of seconds, not {entry.shown}")
    http = read(HttpSettings, own, problems)
    _check_server(own, http, problems)
    run = read(RunSettings, own, problems)
    _check_ports(own, run, http, problems)
    return replace(run, http=http, webhook=_webhook(own, problems))


def _webhook(own: Entries, problems: Problems) -> WebhookSettings | None:
    webhook = read(WebhookSettings, own, problems)
    if not webhook.url:
        for name in ("causeway.webhook.token", "causeway.webhook.secret"):
            if name in own and "causeway.webhook.url" not in own:
                problems.add(f"{own[name].place} needs causeway.webhook.url as well")
        return None
    to = urlsplit(webhook.url.reveal())
    if webhook.token and to.scheme == "http" and not is_loopback(to.hostname or ""):
        problems.add(
            f"{own['causeway.webhook.token'].place} would be sent to an http:// address, where"
            " others can read it: use https://"
        )
    return webhook


def _check_server(own: Entries, http: HttpSettings, problems: Problems) -> None:
    """Refuses a server that other machines reach unless it checks its callers and encrypts."""
    certificate, key = "causeway.http.tls.certificate", "causeway.http.tls.key"
    token, client_ca = "causeway.http.token", "causeway.http.tls.client.ca"
    given = {
        name
        for name in (certificate, key, token, client_ca)
        if name in own and (own[name].missing or own[name].value.strip())
    }
    for one, other in ((certificate, key), (key, certificate), (client_ca, certificate)):
        if one in given and other not in given:
            problems.add(f"{own[one].place} needs {other} as well")
    if http.port is not None and not is_loopback(http.host):
        needs = [certificate, key] if certificate not in given else []
        if not given & {token, client_ca}:
            needs.append(f"{token} (or {client_ca})")
        if needs:
            problems.add(
                f"{own['causeway.http.host'].place} is an address that other machines reach:"
                f" set {' and '.join(needs)}, or leave it out to serve this machine only"
            )


def _check_ports(own: Entries, run: RunSettings, http: HttpSettings, problems: Problems) -> None:
    """Refuses two servers that would listen on one address."""
    if run.metrics_port is None or run.metrics_port != http.port:
        return
    hosts = {run.metrics_host, http.host}
    if len(hosts) == 1 or hosts & _ALL_ADDRESSES or all(map(is_loopback, hosts)):
        by_default = "" if "causeway.http.port" in own else ", by default"
        problems.add(
            f"{own['causeway.metrics.port'].place} is also causeway.http.port{by_default}: leave it"
            " out, because that port serves /metrics too, or set another port"
        )
