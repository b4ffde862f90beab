"""What a file says of schema registries: `A.causeway.registry.*`, `A->B.causeway.schemas.*`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from causeway.config.entries import Entry, Problems, read
from causeway.config.reading.build import patterns
from causeway.config.reading.security import is_endpoint, trusted_certificates
from causeway.config.schema_keys import OF_REGISTRIES, RegistryKeys, SchemaKeys
from causeway.config.settings import (
    RegistrySettings,
    SchemaSettings,
    Secret,
    TransformSettings,
    TreatmentSettings,
)

Entries = Mapping[str, Entry]
_PREFIX = "causeway.registry."
_CONTEXT = re.compile(r"[A-Za-z0-9_.-]+")


def schema_settings(
    own: Entries, entries: Entries, source: str, target: str, problems: Problems
) -> SchemaSettings | None:
    """Of the flow whose clusters the file calls so; `own` are its keys. None where it is off, or
    something is wrong, which goes to `problems`."""
    before = len(problems.lines)
    keys = read(SchemaKeys, own, problems)
    entry = own.get("causeway.schemas")
    if keys.schemas == "off" or entry is None:
        return None
    sides = [registry_settings(alias, entries, problems) for alias in (source, target)]
    for alias, found in zip((source, target), sides, strict=True):
        if found is None and not _told(entries, alias):
            problems.add(f"{entry.place} needs {alias}.{_PREFIX}url")
    subjects = patterns(own, "causeway.schemas.subjects", keys.subjects, problems)
    context = keys.context.removeprefix(".")
    if context and not _CONTEXT.fullmatch(context):
        place = own["causeway.schemas.context"].place
        problems.add(f"{place}: a context is made of letters, digits, '_', '-' and '.'")
    here, there = sides
    if context and there is not None and "/contexts/" in there.url:
        place = own["causeway.schemas.context"].place
        problems.add(f"{place}: the target has one, as its registry's URL names a context already")
    if here is None or there is None or len(problems.lines) > before:
        return None
    if here.url == there.url and not context:
        problems.add(
            f"{entry.place}: both clusters have the same registry, so there is nothing to"
            f" {keys.schemas}: leave it out"
        )
        return None
    return SchemaSettings(
        mode=keys.schemas,
        source=here,
        target=there,
        interval_s=keys.interval,
        subjects=subjects,
        names=keys.subject_names,
        context=context,
        unknown=keys.unknown,
        parts=("key", "value") if keys.parts == "both" else (keys.parts,),
    )


def translation(
    schemas: SchemaSettings | None, transforms: Iterable[TransformSettings], problems: Problems
) -> Iterator[TreatmentSettings]:
    """The step that writes the target's ids into records. Transforms come after it, so those that
    look schemas up have to do so on the target."""
    if schemas is None or schemas.mode != "translate":
        return
    for each in transforms:
        if each.registry is not None and each.registry.url == schemas.source.url:
            problems.add(
                f"{each.registry.place}: records have the ids of the target's registry before they"
                f" come to transform {each.name} (causeway.schemas = translate): name"
                f" {schemas.target.url}"
            )
    registries = {"source": schemas.source.as_json(), "target": schemas.target.as_json()}
    yield TreatmentSettings(
        kind="schema-ids",
        decides={
            "source": schemas.source.url,
            "target": schemas.target.url,
            "context": schemas.context,
            "names": schemas.names,
            "parts": list(schemas.parts),
            "unknown": schemas.unknown,
        },
        needs={"registries": registries},
        text="written with the ids that the target's registry has for its schemas",
    )


def registry_settings(alias: str, entries: Entries, problems: Problems) -> RegistrySettings | None:
    """Of the cluster `alias`; None where it has none."""
    own = {
        name: entry
        for full, entry in entries.items()
        if (name := full.removeprefix(f"{alias}.")) != full and name in OF_REGISTRIES
    }
    keys = read(RegistryKeys, own, problems)
    if not keys.url:
        for entry in own.values() if "causeway.registry.url" not in own else ():
            problems.add(f"{entry.place} needs {alias}.{_PREFIX}url")
        return None
    url = own["causeway.registry.url"]
    if not is_endpoint(keys.url):
        problems.add(
            f"{url.place}: must be an http(s) URL, without user and password: these are"
            f" {_PREFIX}username and {_PREFIX}password"
        )
        return None
    if keys.password and not keys.username:
        problems.add(f"{own[f'{_PREFIX}password'].place} needs {alias}.{_PREFIX}username")
    if keys.token and keys.username:
        problems.add(
            f"{own[f'{_PREFIX}token'].place} and {own[f'{_PREFIX}username'].place} are two ways to"
            " say who asks: leave one out"
        )
    tls = {
        name.removeprefix(_PREFIX): entry
        for name, entry in own.items()
        if name.startswith(f"{_PREFIX}ssl.")
    }
    ca_pem = trusted_certificates(f"the registry of {alias}", tls, problems) if tls else None
    return RegistrySettings(
        url=keys.url.rstrip("/"),
        username=keys.username or None,
        password=Secret(keys.password) if keys.password else None,
        token=Secret(keys.token) if keys.token else None,
        ca_pem=ca_pem,
        place=url.place,
    )


def _told(entries: Entries, alias: str) -> bool:
    """Whether something was said already of why that cluster has no registry."""
    return any(full.startswith(f"{alias}.{_PREFIX}") for full in entries)
