"""Schema registries (`A.causeway.registry.*`), schemas of a flow (`A->B.causeway.schemas.*`), and
the treatments of its records.

Treatments run in the order in which they are listed here. A record that one treatment leaves out
does not reach the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from causeway.config.clients import OF_REGISTRIES, RegistryKeys, SchemaKeys
from causeway.config.entries import Entries, Problems, read
from causeway.config.key_table import values_of
from causeway.config.keys import PROVENANCE, FlowKeys
from causeway.config.reading.client_reader import is_endpoint
from causeway.config.reading.security import trusted_certificates
from causeway.config.settings import (
    RegistrySettings,
    SchemaSettings,
    TransformSettings,
    TreatmentSettings,
)

REGISTRY = "causeway.registry."
_SUBJECTS = "causeway.schemas.subjects"
_CONTEXT = re.compile(r"[A-Za-z0-9_.-]+")


def schema_settings(
    own: Entries, entries: Entries, source: str, target: str, problems: Problems
) -> SchemaSettings | None:
    """Returns the schema settings of the flow between these aliases of the file. `own` are its
    keys. None if schemas are off, or after a problem, which goes to `problems`."""
    before = len(problems.lines)
    if read(SchemaKeys, own, Problems("")).mode == "off":  # then no pattern of subjects is used
        own = {name: each for name, each in own.items() if name != _SUBJECTS}
    keys = read(SchemaKeys, own, problems)
    entry = own.get("causeway.schemas")
    if keys.mode == "off" or entry is None:
        return None
    sides = [registry_settings(alias, entries, problems) for alias in (source, target)]
    for alias, found in zip((source, target), sides, strict=True):
        # If there are other keys of the registry, a problem already says what they lack.
        if found is None and not any(full.startswith(f"{alias}.{REGISTRY}") for full in entries):
            problems.add(f"{entry.place} needs {alias}.{REGISTRY}url")
    context = keys.context
    if context and not _CONTEXT.fullmatch(context):
        place = own["causeway.schemas.context"].place
        problems.add(f"{place}: a context is made of letters, digits, '_', '-' and '.'")
    here, there = sides
    if context and there is not None and "/contexts/" in there.url:
        place = own["causeway.schemas.context"].place
        problems.add(f"{place}: the URL of the target's registry already names a context")
    if here is None or there is None or len(problems.lines) > before:
        return None
    if here.url == there.url and not context:
        problems.add(
            f"{entry.place}: both clusters have the same registry, so there is nothing to"
            f" {keys.mode}: leave it out"
        )
        return None
    return SchemaSettings(source=here, target=there, **values_of(keys))


def translation(
    schemas: SchemaSettings | None, transforms: Iterable[TransformSettings], problems: Problems
) -> Iterator[TreatmentSettings]:
    """Yields the treatment that writes the target's ids into records. Transforms run after it, so
    they must look schemas up in the target's registry."""
    if schemas is None or schemas.mode != "translate":
        return
    for each in transforms:
        if each.registry is not None and each.registry.url == schemas.source.url:
            problems.add(
                f"{each.registry.place}: transform {each.name} gets records that already have the"
                " ids of the target's registry (causeway.schemas = translate): set it to"
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
    """Returns the registry of the cluster `alias`. None if it has no registry, or after a
    problem."""
    own = {
        name: entry
        for full, entry in entries.items()
        if (name := full.removeprefix(f"{alias}.")) != full and name in OF_REGISTRIES
    }
    shown = f"{alias}.{REGISTRY}"
    if f"{REGISTRY}url" not in own:
        for entry in own.values():
            problems.add(f"{entry.place} needs {shown}url")
        return None
    return read_registry(own, f"the registry of {alias}", shown, problems)


def read_registry(
    own: Entries, subject: str, shown: str, problems: Problems
) -> RegistrySettings | None:
    """Returns the registry in the entries `causeway.registry.*`. `shown`: how the file begins these
    keys."""
    keys = read(RegistryKeys, own, problems)
    if not keys.url:
        return None
    place = own[f"{REGISTRY}url"].place
    if not is_endpoint(keys.url):
        problems.add(
            f"{place} must be an http(s) URL without user and password: set {shown}username and"
            f" {shown}password"
        )
        return None
    if keys.password and not keys.username:
        problems.add(f"{own[f'{REGISTRY}password'].place} needs {shown}username")
    if keys.token and keys.username:
        token, username = (own[f"{REGISTRY}{name}"].place for name in ("token", "username"))
        problems.add(f"{token} and {username} are two ways to log in: leave one out")
    tls = {
        name.removeprefix(REGISTRY): entry
        for name, entry in own.items()
        if name.startswith(f"{REGISTRY}ssl.")
    }
    return RegistrySettings(
        url=keys.url.rstrip("/"),
        username=keys.username,
        password=keys.password,
        token=keys.token,
        ca_pem=trusted_certificates(subject, tls, problems) if tls else None,
        place=place,
    )


def treatments(
    own: Entries,
    keys: FlowKeys,
    *,
    source: str,
    target: str,
    transformed: bool,
    problems: Problems,
) -> Iterator[TreatmentSettings]:
    """Returns the treatments of the flow between these aliases. `transformed`: the flow has
    transforms."""
    if keys.skip_header:
        yield TreatmentSettings(
            kind="skip-header",
            decides={"name": keys.skip_header},
            text=f"left out if it has the header {keys.skip_header}",
        )
    if keys.provenance == "none":
        return
    if transformed:
        # A query sets all headers, so it could drop the header that stops a loop.
        problems.add(
            f"{own[PROVENANCE].place}: a flow with transforms cannot have it, because a transform"
            " may change headers"
        )
    local = {"local": True} if keys.provenance == "local" else {}
    left_out = f"if it was not written on {source}" if local else f"if it has been on {target}"
    yield TreatmentSettings(
        kind="provenance",
        decides={"source": source, "target": target, **local},
        text=f"left out {left_out}, by its headers, else marked as from {source}",
    )
