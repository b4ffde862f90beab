"""Parts of Settings that every kind of file makes in the same way."""

from __future__ import annotations

from collections.abc import Mapping

from causeway.config.keys import IN_SECONDS, ConsumerKeys, RunKeys
from causeway.config.problems import Problems
from causeway.config.properties import Entry
from causeway.config.settings import FetchSettings, RunSettings
from causeway.config.typed import read

Entries = Mapping[str, Entry]


def spark_settings(entries: Entries) -> dict[str, str]:
    """`spark.*`, as it stands."""
    return {name: entry.value for name, entry in entries.items() if name.startswith("spark.")}


def fetch_settings(reader: Entries, problems: Problems) -> FetchSettings:
    """From the keys of a consumer, names without any prefix."""
    keys = read(ConsumerKeys, reader, problems)
    return FetchSettings(
        read_committed=keys.isolation_level == "read_committed",
        max_wait_ms=keys.fetch_max_wait_ms,
        min_bytes=keys.fetch_min_bytes,
        max_bytes=keys.fetch_max_bytes,
        max_partition_bytes=keys.max_partition_fetch_bytes,
        start=keys.auto_offset_reset,
    )


def run_settings(entries: Entries, problems: Problems) -> RunSettings:
    """From `causeway.*` among `entries`; intervals may be given in `.ms` or `.seconds`."""
    own = dict(entries)
    for seconds, millis in IN_SECONDS.items():
        if seconds not in own:
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
    return RunSettings(
        lanes=keys.lanes,
        progress_interval_s=keys.progress_interval_ms / 1000,
        lease_s=keys.lease_ms / 1000,
        connections=keys.connections,
        in_flight=keys.in_flight,
        lane_buffer_bytes=keys.lane_buffer_bytes,
    )


def _is_number(text: str) -> bool:
    try:
        return 0 < float(text) < 1e9
    except ValueError:
        return False
