"""Makes Settings of a MirrorMaker 2 property file.

One error reports all problems of a file: one line for each, with key and line number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from causeway import filters
from causeway.config import (
    OF_FLOWS,
    OLD_NAMES,
    ClientSettings,
    ControlSettings,
    Entries,
    FetchSettings,
    FlowKeys,
    FlowSwitch,
    HeartbeatKeys,
    HeartbeatSettings,
    LinkSettings,
    Problems,
    PropertyFile,
    SchemaKeys,
    Settings,
    read,
    values_of,
)
from causeway.config.reading import (
    check_circles,
    check_listed,
    client_entries,
    client_settings,
    flow_entries,
    is_recipe,
    key_warnings,
    listed_transforms,
    read_transforms,
    recipe_note,
    replication_policy,
    run_settings,
    safety_warnings,
    schema_settings,
    shown_place,
    spark_settings,
    split_key,
    translation,
    treatments,
    with_identity_policy,
    with_offsets,
    with_renaming,
    with_reverse_flows,
    without_dead_letters,
    without_loops,
)
from causeway.formats.properties import load_properties
from causeway.naming import is_legal_name

_FILTERS = {
    "topic.filter.class": "DefaultTopicFilter",
    "config.property.filter.class": "DefaultConfigPropertyFilter",
    "group.filter.class": "DefaultGroupFilter",
}


def load_mm2(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Reads `path`. Raises one ConfigError with all problems. `Settings.warnings` names keys
    without effect. `environment` replaces os.environ."""
    problems = Problems(str(path))
    return settings_of(load_properties(path, problems, environment), problems)


def settings_of(file: PropertyFile, problems: Problems) -> Settings:
    """Returns the settings of the resolved entries of `file`. Raises one ConfigError with
    `problems` and all other problems."""
    before = len(problems.lines)
    aliases = _aliases(file.entries, problems)
    if not aliases or len(problems.lines) > before:
        problems.raise_if_any()  # without aliases, nothing else can be checked
    _check_flow_names(file.entries, aliases, problems)
    links = _links(file, aliases, problems)
    run = run_settings(file.entries, problems)
    spark = spark_settings(file.entries, problems)
    check_circles(links, problems)
    links, followed = with_reverse_flows(with_renaming(links), problems)
    links, told = without_loops(links)
    problems.raise_if_any()
    notes = [
        f"{shown_place(entry, aliases)} is set again below; the last one counts"
        for entry in file.repeated
    ]
    notes += [*_old_names(file.entries), *followed, *told]
    clients = (client for link in links for client in (link.source, link.target))
    notes += safety_warnings(clients, spark)
    notes += [
        f"no record of {link.name} is copied: {link.places['causeway.paused']} says so"
        for link in links
        if link.records_paused
    ]
    notes += [
        recipe_note(f"{source}->{target}")
        for source, target in permutations(aliases, 2)
        if is_recipe(_flow_keys(file.entries, source, target))
        and any((link.source.alias, link.target.alias) == (source, target) for link in links)
    ]
    heartbeats = _heartbeats(file.entries, aliases, notes)
    return Settings(
        links=tuple(links),
        heartbeat_links=tuple(heartbeats),
        run=run,
        spark=spark,
        warnings=(*notes, *key_warnings(file.entries, aliases)),
    )


def _aliases(entries: Entries, problems: Problems) -> tuple[str, ...]:
    entry = entries.get("clusters")
    aliases = tuple(dict.fromkeys(filters.split_list(entry.value))) if entry else ()
    if "apiVersion" in entries:
        problems.add("it is a resource of Kubernetes: its name must end in .yaml")
    elif not aliases and "connector.class" in entries:
        problems.add(
            "it is a connector of Kafka Connect: write its config as JSON, and make a"
            " property file with `causeway convert`"
        )
    elif not aliases and not (entry and entry.missing):
        problems.add("it names no clusters: set clusters = A, B")
    for alias in aliases:
        if why := no_alias(alias):
            shown = "an alias" if entry and entry.secret else repr(alias)
            problems.add(f"clusters: {shown} {why}{entry.remark if entry else ''}")
    return aliases


def no_alias(text: str) -> str:
    """Returns why `text` cannot be a cluster's alias; empty if it can."""
    if not is_legal_name(text):
        return "has characters that topic names cannot have" if text else "is no alias"
    if text in ("spark", "causeway", "clusters", "config"):
        return "cannot be an alias, keys beginning so mean other things"
    return ""


def _check_flow_names(entries: Entries, aliases: Iterable[str], problems: Problems) -> None:
    for entry in entries.values():
        # `A -> B.x = y` is the key `A` in Java's syntax.
        if entry.key in aliases and entry.value.startswith("->"):
            problems.add(f"{entry.place}: a flow is written A->B.key, without blanks")
        if "->" not in entry.key or split_key(entry.key, aliases)[0]:
            continue
        source, _, rest = entry.key.partition("->")
        unknown = [source.strip()] if source.strip() not in aliases else []
        if not any(rest.startswith(f"{alias}.") for alias in aliases):
            unknown.append(rest.partition(".")[0].strip())
        problems.add(
            f"{entry.place}: clusters does not name {' or '.join(unknown)}"
            if unknown
            else f"{entry.place}: a flow is written A->B.key, without blanks"
        )


def _links(file: PropertyFile, aliases: tuple[str, ...], problems: Problems) -> list[LinkSettings]:
    entries = file.entries
    with_transforms: dict[str, tuple[str, ...]] = {}  # of each flow that runs
    links = []
    for source, target in permutations(aliases, 2):
        own = _own(entries, source, target)
        switch = read(FlowSwitch, own, here := Problems(""))
        # A flow that does not run may have wrong values in its other keys.
        unclear = "enabled" in own and (own["enabled"].missing or here.lines)
        if switch.enabled or unclear:
            with_transforms[f"{source}->{target}"] = listed_transforms(own)
            keys = read(FlowKeys, own, problems)
            link = _link(file, own, keys, source, target, problems)
            if link is not None:
                links.append(link)
    check_listed(entries, with_transforms, problems)
    if not with_transforms:
        problems.add(
            "no flow is enabled: set A->B.enabled = true, with the aliases of two clusters"
        )
    return without_dead_letters(links)


def _own(entries: Entries, source: str, target: str) -> Entries:
    """Returns the keys of the pair, with their newest names."""
    own = dict(with_identity_policy(_flow_keys(entries, source, target)))
    for old, new in OLD_NAMES.items():
        if old in own:
            own.setdefault(new, own[old])
    return own


def _flow_keys(entries: Entries, source: str, target: str) -> Entries:
    """Returns the flow's keys as the file has them."""
    return flow_entries(entries, source, target, OF_FLOWS | SchemaKeys.key_names())


def _heartbeats(
    entries: Entries, aliases: tuple[str, ...], notes: list[str]
) -> list[HeartbeatSettings]:
    """Returns the settings of each pair of clusters that has not switched heartbeats off, as
    MirrorMakerConfig.clusterPairs.

    If a pair cannot have heartbeats, that is no error; a note says why."""
    heartbeats = []
    for source, target in permutations(aliases, 2):
        own = _own(entries, source, target)
        problems = Problems("")
        keys = read(HeartbeatKeys, own, problems)
        if not keys.enabled or "heartbeats" in read(ControlSettings, own, Problems("")).paused:
            continue
        here = _alias(own, "source.cluster.alias", source, problems)
        there = _alias(own, "target.cluster.alias", target, problems)
        found = client_entries(entries, source, target, "target", "admin")
        client = client_settings(target, found, problems)
        if client is None or problems.lines:
            notes.append(f"no heartbeats {source}->{target}: {'; '.join(problems.lines)}")
            continue
        heartbeats.append(
            HeartbeatSettings(
                source=here,
                target=replace(client, alias=there),
                **values_of(keys),
            )
        )
    return heartbeats


def _link(
    file: PropertyFile,
    own: Entries,
    keys: FlowKeys,
    source: str,
    target: str,
    problems: Problems,
) -> LinkSettings | None:
    entries = file.entries
    reader = client_entries(entries, source, target, "source", "consumer")
    here = _alias(own, "source.cluster.alias", source, problems)
    there = _alias(own, "target.cluster.alias", target, problems)
    clients = [
        client_settings(alias, found, problems)
        for alias, found in (
            (source, reader),
            (target, client_entries(entries, source, target, "target", "producer")),
            (source, client_entries(entries, source, target, "source", "admin")),
            (target, client_entries(entries, source, target, "target", "admin")),
        )
    ]
    _check_classes(own, problems)
    policy = replication_policy(own, keys, here, there, problems)
    fetch = read(FetchSettings, reader, problems)
    control = with_offsets(
        _control(own, problems), entries, _flow_keys(entries, source, target), source, target
    )
    paused = "records" in control.paused
    found = read_transforms(
        own,
        entries,
        f"{source}->{target}",
        slug=f"{here}.{there}",
        directory=file.path.parent,
        problems=problems,
    )
    treated = tuple(
        treatments(
            own,
            keys,
            source=here,
            target=there,
            transformed=bool(listed_transforms(own)),
            problems=problems,
        )
    )
    schemas = schema_settings(own, entries, source, target, problems)
    names = (here, there, here, there)
    known: list[ClientSettings] = [
        replace(client, alias=name)
        for client, name in zip(clients, names, strict=True)
        if client is not None
    ]
    if len(known) < len(clients) or policy is None:
        return None
    said = keys.declared_sole_writer
    link = LinkSettings(
        source=known[0],
        target=known[1],
        source_admin=_bounded(known[2], keys.admin_timeout_ms),
        target_admin=_bounded(known[3], keys.admin_timeout_ms),
        policy=policy,
        fetch=fetch,
        # If names do not show their source, others may write to the same topics.
        sole_writer=policy.tells_source(here) if said is None else said,
        records_paused=paused,
        joins=said is False,
        stops_on_data=said is None and not (treated or policy.tells_source(here)),
        control=control,
        transforms=found,
        treatments=(*treated, *translation(schemas, found, problems)),
        schemas=schemas,
        places={name: entry.place for name, entry in own.items()},
        # `policy` and `transforms` have these; the text of the file may be a secret.
        **values_of(keys) | {"policy_class": policy.class_name, "causeway_transforms": ""},
    )
    if paused:  # as with MirrorMaker 2's source connector, which syncs topic configs as well
        link = replace(link, sync_topic_configs_enabled=False)
    return link


def _control(own: Entries, problems: Problems) -> ControlSettings:
    control = read(ControlSettings, own, problems)
    if control.read_only_mirrors and "causeway.principal" not in own:
        # A rule that denies writes to all users would also stop Causeway.
        problems.add(
            f"{own['causeway.read.only.mirrors'].place} needs causeway.principal, Causeway's"
            " principal on the target, such as User:causeway"
        )
    heartbeats = read(HeartbeatKeys, own, problems)
    paused = control.paused
    return replace(
        control,
        emit_checkpoints_enabled=control.emit_checkpoints_enabled and "checkpoints" not in paused,
        sync_group_offsets_enabled=control.sync_group_offsets_enabled
        and "checkpoints" not in paused,
        # As with MirrorMaker 2's source connector, which syncs ACLs as well.
        sync_topic_acls_enabled=control.sync_topic_acls_enabled and "records" not in paused,
        heartbeats=replace(heartbeats, enabled=heartbeats.enabled and "heartbeats" not in paused),
    )


def _bounded(client: ClientSettings, timeout_ms: int) -> ClientSettings:
    """Returns `client` with this bound on the time for each response, including the first one."""
    return replace(client, request_timeout_ms=min(client.request_timeout_ms, timeout_ms))


def _alias(own: Entries, name: str, alias: str, problems: Problems) -> str:
    """`source.cluster.alias` renames a cluster for a flow; its addresses stay under `alias`."""
    entry = own.get(name)
    if entry is None or entry.missing:
        return alias
    value = entry.value.strip()
    if not is_legal_name(value):
        problems.add(f"{entry.place} must be an alias that topic names can hold, or be left out")
        return alias
    return value


def _check_classes(own: Entries, problems: Problems) -> None:
    for name, only in _FILTERS.items():
        if name not in own or own[name].missing:
            continue
        if own[name].value.strip().rsplit(".", 1)[-1] != only:
            problems.add(f"{own[name].place}: {own[name].shown} cannot be loaded, only {only}")
    if "transforms" in own and own["transforms"].value.strip():
        # If they were ignored, data that they should mask could be copied.
        problems.add(f"{own['transforms'].place}: Connect's transforms cannot run here")


def _old_names(entries: Entries) -> list[str]:
    return [
        f"{entry.place} is not used, because {entry.key.replace(old, new)} is set too"
        for old, new in OLD_NAMES.items()
        for entry in entries.values()
        if entry.key.endswith(old) and entry.key.replace(old, new) in entries
    ]
