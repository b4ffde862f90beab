"""What differs between two settings of a process, and when a running process applies it.

    rows_of         each value of the settings, with the name of its key, in sections
    changes         the rows of the running process against those of the wanted settings

If all clients of a cluster change a value in the same way, the change belongs to the cluster:

    A.bootstrap.servers                all clients
    A.consumer.client.id               all readers
    A->B.source.consumer.client.id     the reader of one flow
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from causeway.config.clients import (
    REGISTRY_TLS,
    SECURITY,
    ClientSettings,
    FetchSettings,
    ProducerKeys,
    RegistryKeys,
    SchemaKeys,
    to_wire,
)
from causeway.config.key_table import AS_AT_START, LIVE, Applies, Key, KeyTable
from causeway.config.keys import ControlSettings, FlowKeys, HeartbeatKeys
from causeway.config.logins import RENEWAL_KEYS
from causeway.config.process import SPARK, HttpSettings, RunSettings, WebhookSettings
from causeway.config.settings import (
    LinkSettings,
    RegistrySettings,
    Settings,
    TransformSettings,
)
from causeway.config.transform_keys import (
    SECRET_FIELD,
    TRANSFORM_FAMILY,
    TRANSFORM_REGISTRY_TLS,
    TRANSFORM_SECRETS,
    TRANSFORMS,
    TransformKeys,
)
from causeway.config.values import Secret

Scope = Literal["process", "cluster", "flow"]
Value = str | Secret | None  # None: it has no value
_ORDER: tuple[Scope, ...] = ("process", "cluster", "flow")
_HIDDEN = "(hidden)"
_SERVERS, _ENABLED = "bootstrap.servers", "enabled"


class SettingSection(NamedTuple):
    """Values that come and go together. `name`: of the flow or cluster, empty for the process.
    `part`: a part of the flow or cluster, such as `transform mask`, or the side and role of a
    client, `target.admin`.
    `switch`: the key that shows whether the section exists; empty if another section shows it.
    `flow`: the flow of a client."""

    scope: Scope
    name: str = ""
    part: str = ""
    switch: str = ""
    flow: str = ""


class SettingRow(NamedTuple):
    value: Value
    applies: Applies = LIVE


SettingRows = Mapping[SettingSection, Mapping[str, SettingRow]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One value that differs. `name`: of the flow (`A->B`) or cluster; empty for the process.
    `before` and `after` may be shown; None: no value. An added flow is one change, its `enabled`;
    an added cluster its `bootstrap.servers`; an added transform is in `causeway.transforms`."""

    scope: Scope
    name: str
    key: str
    before: str | None
    after: str | None
    applies: Applies

    @property
    def place(self) -> str:
        """The key as a property file may have it: `A->B.topics`."""
        return f"{self.name}.{self.key}" if self.name else self.key


def changes(running: Settings, wanted: Settings) -> tuple[SettingChange, ...]:
    """Returns each value of `wanted` that differs from `running`: of the process, of clusters, of
    flows."""
    return changed_rows(rows_of(running), rows_of(wanted))


def changed_rows(running: SettingRows, wanted: SettingRows) -> tuple[SettingChange, ...]:
    """Returns what `changes` returns, from the rows of both settings."""
    found = list(_changes_of_clients(_clients(running), _clients(wanted)))
    for section in dict.fromkeys((*running, *wanted)):
        if _is_client(section):
            continue
        before, after = running.get(section), wanted.get(section)
        if before is not None and after is not None:
            for key in dict.fromkeys((*before, *after)):
                pair = before.get(key), after.get(key)
                found += _changes(section.scope, section.name, key, pair)
        elif key := section.switch:
            pair = _switch(before, key), _switch(after, key)
            found += _changes(section.scope, section.name, key, pair)
    return tuple(sorted(found, key=lambda each: (_ORDER.index(each.scope), each.name)))


_Pair = tuple[SettingRow | None, SettingRow | None]  # before and after


def _changes(scope: Scope, name: str, key: str, pair: _Pair) -> Iterator[SettingChange]:
    """Yields the change of one setting, or nothing."""
    before, after = (None if row is None else row.value for row in pair)
    if before == after:
        return
    row = pair[0] or pair[1]  # the running process knows best
    assert row is not None, "they differ"
    yield SettingChange(
        scope=scope,
        name=name,
        key=key,
        before=_shown(before),
        after=_shown(after) if not isinstance(before, Secret) else _after_secret(after),
        applies=row.applies,
    )


def _switch(rows: Mapping[str, SettingRow] | None, key: str) -> SettingRow | None:
    """Returns the row of `key`. A section that does not exist is switched off."""
    if rows is not None:
        return rows.get(key)
    return SettingRow("false") if key.endswith(_ENABLED) else None


def _shown(value: Value) -> str | None:
    return _HIDDEN if isinstance(value, Secret) else value


def _after_secret(value: Value) -> str | None:
    return "(changed)" if isinstance(value, Secret) else value


def _is_client(section: SettingSection) -> bool:
    return bool(section.flow)


def _clients(found: SettingRows) -> dict[str, dict[SettingSection, Mapping[str, SettingRow]]]:
    """Returns the clients of each cluster."""
    clients: dict[str, dict[SettingSection, Mapping[str, SettingRow]]] = {}
    for section, each in found.items():
        if _is_client(section):
            clients.setdefault(section.name, {})[section] = each
    return clients


def _changes_of_clients(
    running: Mapping[str, SettingRows], wanted: Mapping[str, SettingRows]
) -> Iterator[SettingChange]:
    for alias in dict.fromkeys((*running, *wanted)):
        before, after = running.get(alias), wanted.get(alias)
        if before is None or after is None:
            yield from _changes("cluster", alias, _SERVERS, (_servers(before), _servers(after)))
            continue
        common = [section for section in before if section in after]
        for key in dict.fromkeys(key for each in common for key in (*before[each], *after[each])):
            pairs = {
                each: (before[each].get(key), after[each].get(key))
                for each in common
                if key in before[each] or key in after[each]
            }
            if len(pairs) == len(common) and len(set(pairs.values())) == 1:
                yield from _changes("cluster", alias, key, pairs[common[0]])
            else:
                yield from _changes_by_role(alias, key, pairs)


def _servers(clients: SettingRows | None) -> SettingRow | None:
    return next(iter(clients.values()))[_SERVERS] if clients else None


def _changes_by_role(
    alias: str, key: str, pairs: Mapping[SettingSection, _Pair]
) -> Iterator[SettingChange]:
    by_role: dict[str, dict[SettingSection, _Pair]] = {}
    for section, pair in pairs.items():
        by_role.setdefault(section.part.rpartition(".")[2], {})[section] = pair
    for role, found in by_role.items():
        if len(set(found.values())) == 1:
            yield from _changes("cluster", alias, f"{role}.{key}", next(iter(found.values())))
            continue
        for section, pair in found.items():
            yield from _changes("flow", section.flow, f"{section.part}.{key}", pair)


def rows_of(settings: Settings) -> dict[SettingSection, dict[str, SettingRow]]:
    """Returns all values of `settings`."""
    run = settings.run
    found = {
        SettingSection("process"): {
            **_keyed(RunSettings, run),
            **_keyed(HttpSettings, run.http),
            **{name: SettingRow(value, SPARK) for name, value in settings.spark.items()},
        }
    }
    if run.webhook is not None:
        section = SettingSection("process", part="webhook", switch="causeway.webhook.url")
        found[section] = _keyed(WebhookSettings, run.webhook)
    for link in settings.links:
        found.update(_of_link(link))
        found.update(_of_schemas(link))
    for pair in settings.heartbeat_links:
        name = pair.name
        section = SettingSection("flow", name, "heartbeats", "emit.heartbeats.enabled")
        found[section] = _keyed(HeartbeatKeys, pair)
        client = SettingSection("cluster", pair.target.alias, "heartbeats.admin", flow=name)
        found[client] = _of_client(pair.target)
    return found


def _of_link(link: LinkSettings) -> Iterator[tuple[SettingSection, dict[str, SettingRow]]]:
    group = {} if link.group_id is None else {"group.id": SettingRow(link.group_id, AS_AT_START)}
    names = ",".join(each.name for each in link.transforms)
    own = {
        **_keyed(FlowKeys, link),
        **_keyed(ControlSettings, link.control),
        **group,
        TRANSFORMS: SettingRow(names, AS_AT_START),
        _ENABLED: SettingRow("true"),
    }
    yield SettingSection("flow", link.name, switch=_ENABLED), own
    for part, client in (
        ("source.consumer", link.source),
        ("target.producer", link.target),
        ("source.admin", link.source_admin),
        ("target.admin", link.target_admin),
    ):
        reads = _keyed(FetchSettings, link.fetch) if part == "source.consumer" else {}
        section = SettingSection("cluster", client.alias, part, flow=link.name)
        yield section, {**reads, **_of_client(client)}
    for transform in link.transforms:
        yield (
            SettingSection("flow", link.name, f"transform {transform.name}"),
            _of_transform(transform),
        )


def _of_schemas(link: LinkSettings) -> Iterator[tuple[SettingSection, dict[str, SettingRow]]]:
    if link.schemas is None:
        return
    section = SettingSection("flow", link.name, "schemas", "causeway.schemas")
    yield section, _keyed(SchemaKeys, link.schemas)
    sides = (link.source.alias, link.schemas.source), (link.target.alias, link.schemas.target)
    for alias, registry in sides:
        section = SettingSection("cluster", alias, "registry", "causeway.registry.url")
        trusted = _trusted(registry, "causeway.registry.ssl.truststore.certificates", REGISTRY_TLS)
        yield section, {**_keyed(RegistryKeys, registry), **trusted}


def _of_transform(transform: TransformSettings) -> dict[str, SettingRow]:
    found = _keyed(TransformKeys, transform)
    if transform.registry is not None:
        key = "registry.ssl.truststore.certificates"
        found |= _trusted(transform.registry, key, TRANSFORM_REGISTRY_TLS)
    for name, secret in transform.secrets.items():
        found[f"{SECRET_FIELD}{name}"] = SettingRow(
            secret, TRANSFORM_SECRETS["secret.FIELD"].applies
        )
    return {f"{TRANSFORM_FAMILY}{transform.name}.{name}": row for name, row in found.items()}


def _trusted(
    registry: RegistrySettings, name: str, keys: Mapping[str, Key]
) -> dict[str, SettingRow]:
    return {name: SettingRow(registry.ca_pem and Secret(registry.ca_pem), keys[name].applies)}


def _of_client(client: ClientSettings) -> dict[str, SettingRow]:
    values: dict[str, Value] = {
        _SERVERS: ",".join(f"{host}:{port}" for host, port in client.bootstrap),
        "causeway.cluster.id": client.cluster_id,
        "security.protocol": client.protocol,
    }
    if (tls := client.tls) is not None:
        values |= {
            "ssl.truststore.certificates": tls.ca_pem and Secret(tls.ca_pem),
            "ssl.keystore.certificate.chain": tls.cert_pem and Secret(tls.cert_pem),
            "ssl.keystore.key": tls.key_pem,
            "ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else "",
            "ssl.enabled.protocols": ",".join(tls.versions),
        }
    if client.sasl is not None:
        values["sasl.mechanism"] = client.sasl.mechanism
        # All that the login needs, from whichever keys it came.
        login = to_wire(client)["sasl"]
        values["sasl.jaas.config"] = Secret(json.dumps(login, sort_keys=True))
        if (kerberos := client.sasl.kerberos) is not None and kerberos.renewal is not None:
            for name, key in RENEWAL_KEYS.items():
                values[key] = SECURITY[key].kind.text(getattr(kerberos.renewal, name))
    secured = {name: SettingRow(value, SECURITY[name].applies) for name, value in values.items()}
    return {**secured, **_keyed(ProducerKeys, client)}


def _keyed(table: type[KeyTable], values: Any) -> dict[str, SettingRow]:
    """Returns the values of the fields that `table` names."""
    found = {}
    for field, key in table.table().items():
        value = getattr(values, field)
        is_set = value is not None or key.default is not None  # None may be the value of "-1"
        if is_set and not isinstance(value, Secret):
            value = key.kind.text(value)
        found[key.name] = SettingRow(value, key.applies)
    return found
