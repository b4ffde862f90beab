"""What a file says of all that a link mirrors besides records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from causeway.filters import compile_patterns
from causeway.patterns import Pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """What a link mirrors besides records. Defaults are MirrorMaker 2's; a replication factor of -1
    is the broker's default."""

    groups: tuple[Pattern, ...] = compile_patterns(".*")
    groups_exclude: tuple[Pattern, ...] = compile_patterns("console-consumer-.*, connect-.*, __.*")
    refresh_groups_enabled: bool = True
    refresh_groups_interval_s: float = 600
    emit_checkpoints_enabled: bool = True
    emit_checkpoints_interval_s: float = 60
    checkpoints_replication_factor: int = 3
    sync_group_offsets_enabled: bool = False
    sync_group_offsets_interval_s: float = 60
    emit_offset_syncs_enabled: bool = True
    offset_lag_max: int = 100  # records
    offset_syncs_topic_location: Literal["source", "target"] = "source"
    offset_syncs_replication_factor: int = 3
    emit_heartbeats_enabled: bool = True
    emit_heartbeats_interval_s: float = 1
    heartbeats_replication_factor: int = 3
    sync_topic_acls_enabled: bool = True
    sync_topic_acls_interval_s: float = 600
    # [causeway.*]: ours alone.
    read_only_mirrors: bool = False  # nobody but `principal` may write to mirrored topics
    principal: str | None = None  # Causeway's own on the target, like `User:causeway`
    mm2_offsets: bool = True  # go on from MirrorMaker 2's positions, and keep them written
    mm2_offsets_topic: str | None = None  # None: mm2-offsets.<source alias>.internal
    mm2_connector: str = "MirrorSourceConnector"
    # Aliases of the source in that topic, likeliest first. Empty: its alias, or the empty one.
    mm2_aliases: tuple[str, ...] = ()
