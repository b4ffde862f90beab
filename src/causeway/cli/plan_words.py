"""Texts of `causeway plan`: the starts of partitions, and the changes of topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from causeway.cli.words import count, duration

if TYPE_CHECKING:
    from causeway.operate.plan import KeptOffsets, LinkPlan, Start


def starts_in_words(starts: Sequence[Start]) -> str:
    """Returns in words where the partitions of one topic would start."""
    from causeway.operate.plan import How

    ways: defaultdict[str, list[Start]] = defaultdict(list)
    for start in starts:
        match start.how:
            case How.BEGIN if start.left_out:
                way = "the end" if start.offset == start.end else "the middle"
            case How.BEGIN:
                way = "the first record"
            case How.GO_ON:
                way = "its position"
            case How.SEARCH:
                way = "after the last record of the target"
            case How.STOP:
                way = "nowhere, it would stop"
        ways[way].append(start)
    words = []
    for way, members in ways.items():
        left_out = sum(start.left_out for start in members)
        of = f" ({len(members)} of {len(starts)})" if len(ways) > 1 else ""
        words.append(
            way + (f": {left_out:,} earlier records are left out" if left_out else "") + of
        )
    return "; ".join(words) or "?"


def kept_in_words(kept: KeptOffsets | None) -> str:
    if kept is None:
        return ""
    if not kept.fills:
        return "; same offsets"
    took = duration(max(1000, 1000 * kept.seconds))
    return f"; same offsets: {kept.fills:,} are filled first, in about {took}"


def changes_in_words(each: LinkPlan) -> defaultdict[str, list[str]]:
    """Returns the changes of each target topic in words."""
    from causeway.control import AlterTopicConfigs, CreateTopic, GrowTopic, SyncConfigs

    words: defaultdict[str, list[str]] = defaultdict(list)
    for change in each.changes:
        match change:
            case CreateTopic():
                copies = (
                    "the default number of replicas"
                    if change.replication_factor == -1
                    else count(change.replication_factor, "replica")
                )
                text = f"create: {count(change.partitions, 'partition')}, {copies}"
            case GrowTopic():
                text = f"grow from {change.before} to {change.partitions} partitions"
            case AlterTopicConfigs() | SyncConfigs():
                text = "set"
        configs = () if isinstance(change, GrowTopic) else change.configs
        if configs:
            separator = ", " if isinstance(change, CreateTopic) else " "
            text += separator + " ".join(f"{name}={_value(value)}" for name, value in configs)
        words[change.topic].append(text)
    return words


def _value(value: str | None) -> str:
    """Returns a config value as text. None is the default."""
    from causeway.control import topic_configs

    if value is None:
        return "(default)"
    return "unlimited" if value == str(topic_configs.LONG_MAX) else value
