"""Makes Settings of MirrorMaker 1's consumer and producer property files: a link for each consumer
file.

    a consumer file  ->  link `source-<group.id>->target`; names do not change; if the partition
                         counts differ, keys decide; others may also write to the target topics

The group names the link, and so its progress. If the same command is started again, or on a second
machine, it continues from that progress.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from causeway import filters
from causeway.config import (
    PROVENANCE,
    SKIP_HEADER,
    ClientSettings,
    ControlSettings,
    Entries,
    Entry,
    FetchSettings,
    FlowKeys,
    HeartbeatKeys,
    LinkSettings,
    Problems,
    Settings,
    read,
)
from causeway.config.reading import (
    check_listed,
    client_key_warnings,
    client_settings,
    listed_transforms,
    read_transforms,
    run_settings,
    safety_warnings,
    spark_settings,
    without_dead_letters,
)
from causeway.errors import ConfigError
from causeway.formats.properties import load_properties
from causeway.naming import ReplicationPolicy

TARGET_ALIAS = "target"
_METADATA_MAX_AGE_MS = "300000"  # Kafka's default
# MirrorMaker 1 copied records, and nothing else.
_NO_CONTROL = ControlSettings(
    groups=(),
    emit_checkpoints_enabled=False,
    emit_offset_syncs_enabled=False,
    heartbeats=HeartbeatKeys(enabled=False),
    sync_topic_acls_enabled=False,
    mm2_offsets=False,
)
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")
_OLD_CLIENTS = {
    "zookeeper.connect": "the consumer that reads through ZooKeeper is gone",
    "metadata.broker.list": "the old producer is gone",
}
_OLD_RESETS = {"smallest": "earliest", "largest": "latest"}


def load_mm1(
    consumer_configs: Sequence[Path],
    producer_config: Path,
    include: str,
    *,
    num_streams: int | None = None,
    offset_commit_interval_ms: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Reads the files of `kafka-mirror-maker`.

    `include`: its `--whitelist`. `num_streams`: the number of lanes. `offset_commit_interval_ms`:
    the time between two writes of progress. The producer's file may have `spark.*` and `causeway.*`
    keys. Raises ConfigError for the first wrong file, with all of its problems.
    """
    topics = filters.compile_mm1_include(include)
    problems = Problems(str(producer_config))
    file = load_properties(producer_config, problems, environment)
    own = file.entries
    target = _client(own, TARGET_ALIAS, problems)
    options = {
        "causeway.lanes": num_streams,
        "causeway.progress.interval.ms": offset_commit_interval_ms,
    }
    given = {
        name: Entry(key=name, value=str(value), line=0)
        for name, value in options.items()
        if value is not None
    }
    run = run_settings({**own, **given}, problems)
    spark = spark_settings(own, problems)
    flow = read(FlowKeys, own, problems)
    check_listed(own, {"": listed_transforms(own)}, problems)
    for key in (PROVENANCE, SKIP_HEADER):
        if key in own:
            problems.add(f"{own[key].place} needs a property file of flows: `causeway run FILE`")
    problems.raise_if_any()
    warnings = [f"{producer_config}: {line}" for line in client_key_warnings(own, "producer")]
    files = []
    for path in consumer_configs:
        problems = Problems(str(path))
        files.append((path, load_properties(path, problems, environment).entries, problems))
    links = []
    of_producer = Problems(str(producer_config))
    for (path, entries, problems), alias in zip(files, _aliases(files), strict=True):
        source = _client(entries, alias, problems)
        read_keys = _consumer_keys(entries)
        fetch = read(FetchSettings, read_keys, problems)
        refresh_s = _refresh_interval_s(read_keys, problems)
        problems.raise_if_any()
        found = read_transforms(
            own,
            own,
            "",
            slug=f"{alias}.{TARGET_ALIAS}",
            directory=producer_config.parent,
            problems=of_producer,
        )
        of_producer.raise_if_any()
        if source is None or target is None:
            raise ConfigError("use", str(path), "it does not say how to reach the cluster")
        warnings += [f"{path}: {line}" for line in client_key_warnings(entries, "consumer")]
        links.append(
            LinkSettings(
                source=source,
                target=target,
                source_admin=source,
                target_admin=target,
                policy=ReplicationPolicy(kind="unchanged", source_alias=alias),
                topics=topics,
                topics_exclude=(),
                config_properties_exclude=(),
                replication_factor=-1,  # as for topics that a broker creates by itself
                refresh_topics_interval_s=refresh_s,
                sync_topic_configs_enabled=False,
                fetch=fetch,
                delivery=flow.delivery,
                on_data_loss=flow.on_data_loss,
                partitioning="by-key",
                sole_writer=False,
                group_id=entries["group.id"].value.strip(),
                control=_NO_CONTROL,
                transforms=found,
                throttle_bytes_per_s=flow.throttle_bytes_per_s,
                recompress=flow.recompress,
            )
        )
    clients = (client for link in links for client in (link.source, link.target))
    warnings += safety_warnings(clients, spark)
    return Settings(
        links=tuple(without_dead_letters(links)), run=run, spark=spark, warnings=tuple(warnings)
    )


def _client(entries: Entries, alias: str, problems: Problems) -> ClientSettings | None:
    for name, cause in _OLD_CLIENTS.items():
        if name in entries and "bootstrap.servers" not in entries:
            problems.add(f"{entries[name].place}: {cause}; set bootstrap.servers=host:port")
            return None
    return client_settings(alias, entries, problems)


def _consumer_keys(entries: Entries) -> dict[str, Entry]:
    """Returns the entries as MirrorMaker 1's consumer reads them: by default it starts at the
    end."""
    key = "auto.offset.reset"
    entry = entries.get(key, Entry(key=key, value="latest", line=0))
    value = _OLD_RESETS.get(entry.value.strip().lower(), entry.value)
    return {**entries, key: replace(entry, value=value)}


def _refresh_interval_s(entries: Entries, problems: Problems) -> float:
    """MirrorMaker 1 found new topics when it refreshed the consumer's metadata."""
    entry = entries.get("metadata.max.age.ms")
    text = entry.value.strip() if entry and not entry.missing else _METADATA_MAX_AGE_MS
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text) / 1000
    if entry and text == "0":  # other texts that are no number are refused as the consumer's key
        problems.add(f"{entry.place} must be a whole number of at least 1, not {entry.shown}")
    return 300


def _aliases(files: Sequence[tuple[Path, Entries, Problems]]) -> list[str]:
    """Returns aliases `source-<group.id>`. The name of a link must not depend on addresses or file
    names. Groups with the same name (on two source clusters) are numbered in their files' order."""
    groups = []
    for _, entries, problems in files:
        entry = entries.get("group.id")
        group = entry.value.strip() if entry else ""
        if not group and not (entry and entry.missing):
            problems.add("it has no group.id, which names the mirror")
        groups.append(group)
    counts = Counter(groups)
    seen: Counter[str] = Counter()
    aliases = []
    for group in groups:
        seen[group] += 1
        legal = _ILLEGAL.sub("_", group)[:150]
        if legal != group:  # two groups must not become one
            legal += "-" + hashlib.sha256(group.encode()).hexdigest()[:8]
        aliases.append(f"source{seen[group] if counts[group] > 1 else ''}-{legal}")
    return aliases
