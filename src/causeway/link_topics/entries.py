"""What a progress topic holds, as values and as the JSON of its records.

key    {"topic": "orders", "partition": 3}      of the source
value  {"v": 1, "topic_id": …, "leader_epoch": …, "position": …, "outlets": [{…}],
        "keys_from": …, "transform": …, "state": …, "reason": …, "source_end": …,
        "last_timestamp": …, "dated": [offset, ms], "gone_at": …, "begun": …,
        "first_copy_end": …, "loss": […], "lost": …, "acknowledged": …, "written_at": …}
key    {"offsets": "orders", "partition": 3}           its first outlet's; the key of another one's
                                                       has "to": [topic, partition] as well
value  {"v": 1, "producer_id": …, "points": […], "since": …}       breaks of its offset map
key    {"task": "checkpoints"}
value  {"v": 1, "reason": …, "items": {…}, "done_at": …, "written_at": …}
key    {"transform": "pii"}
value  {"v": 1, "hash": …, "records_in": …, "records_out": …, "dropped": …, "refused": …,
        "seen": …, "without_spark": …, "through_spark": …, "found": […], "missing": […],
        "reason": …, "written_at": …}
key    {"directives": "A->B"}
value  {"v": 1, "topic_id": …, "applied": …, "reason": …, "kinds": […], "written_at": …}
key    {"event": 17}                                           its number modulo EVENTS
value  {"v": 1, "number": …, "at": …, "level": …, "event": …, "about": {…}}
key    {"lease": "A->B"}
value  {"v": 1, "owner": …, "process": …, "producer_id": …, "producer_epoch": …, "lease_s": …,
        "released": false, "progress_lost": false, "reached": …, "source_cluster": …,
        "target_cluster": …, "written_at": …}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import field, structs

from causeway.errors import ProtocolError
from causeway.link_topics import offset_map
from causeway.link_topics.outlet_json import outlet_json, outlet_of
from causeway.model import Dated, Loss, Pair, State, TopicPartition
from causeway.relay.messages import Outlet, Transformed
from causeway.relay.values import Value

VERSION = 1
OFFSET_MAP = b'{"offsets"'  # so begin the keys of offset maps
EVENTS = 250  # of a link that are kept, the newest


class Progress(Value):
    """Where one source partition stands. Timestamps are ms since 1970, and -1 stands for unknown.
    `topic_id` and `leader_epoch` are the source's. A partition that was stopped before it ever
    began has position -1 and no outlets. `keys_from`: see daemon/partitions/routing.py;
    `transform`: the identity of what its records go through, see causeway.transform.identity, None
    where they are relayed as they are; `dated`: of the record at `position`, once that is known;
    `gone_at`: since when the source has no such topic, see
    daemon/partitions/deleted.py; `begun`: by which directive it was claimed, see
    link_topics/directives.py.

    `first_copy_end`, `loss`, `lost`, `acknowledged`: see control/losses.py. The first is
    where the source ended when the claim was made. `loss` says why a partition stopped. `lost`
    counts the source offsets that were passed over because they were lost; `acknowledged`: how
    many of them a person has acknowledged."""

    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    position: int
    outlets: tuple[Outlet, ...]
    state: State
    keys_from: int = 0
    transform: str | None = None
    reason: str | None = None
    source_end: int = -1
    last_timestamp: int = -1
    dated: Dated | None = None
    gone_at: int = -1
    begun: int = -1
    first_copy_end: int = -1
    loss: Loss | None = None
    lost: int = 0
    acknowledged: int = 0
    written_at: int = -1

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_mapped(self) -> bool:
        """Whether it has outlets, and keys do not decide which."""
        return len(self.outlets) == 1 or (self.transform is not None and bool(self.outlets))

    @property
    def first_unmirrored(self) -> int:
        """The timestamp (ms) of the first record that is not mirrored; -1 if it is unknown."""
        dated = self.dated
        return dated.timestamp if dated is not None and dated.offset == self.position else -1


class LeaseRecord(Value):
    """Who leads the link. It holds for `lease_s` seconds after its reader has seen it, unless
    `released`. `owner` names the driver for people; `process` tells whether it is one of this
    machine that has ended, `progress_lost` (None in one that only announces who is about to lead)
    whether the topic was lost before: both see daemon.leadership. `reached`: the offset that the
    topic had come to; a lease before it is in a topic that was created again. `source_cluster`,
    `target_cluster`: the ids of the link's clusters, None while they are unknown."""

    link: str
    owner: str
    producer_id: int
    producer_epoch: int
    lease_s: float
    process: str = ""
    released: bool = False
    progress_lost: bool | None = False
    reached: int = 0
    source_cluster: str | None = None
    target_cluster: str | None = None
    written_at: int = -1


class OffsetMapRecord(Value):
    """The breaks of one outlet's offset map, for its producer id's life. It may be old, or missing:
    the outlet's own pair is true, and what lies between can be looked up. `to`: the target
    partition, None for a partition's first outlet. `since`: see OffsetMap."""

    topic: str
    partition: int
    producer_id: int
    points: tuple[Pair, ...]
    to: TopicPartition | None = None
    since: int | None = None

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TaskRecord(Value):
    """How a task of the control plane fares. `reason`: why its last run failed, None where it did
    not; `items`: what of it could not be done, and why; `figures`: what it counts, by name;
    `done_at` (ms): its last good run's end."""

    name: str
    reason: str | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, int] = field(default_factory=dict)
    done_at: int = -1
    written_at: int = -1


class TransformRecord(Value):
    """What a transform has done since it is what it is (`identity`), by the last driver that led.
    `reason`: why its stages fail, None where they don't."""

    name: str
    identity: str
    counts: Transformed
    reason: str | None = None
    written_at: int = -1


class DirectivesRecord(Value):
    """How far the leading driver has come with what people asked for: all below offset `applied` of
    the directives topic with this id is done, and what stands of it holds. `reason`: why it comes
    no further, None where nothing keeps it. `kinds` of directives that it knows of: older ones do
    not say, and pass over what they do not know."""

    link: str
    topic_id: str
    applied: int
    reason: str | None = None
    kinds: tuple[str, ...] = ()
    written_at: int = -1


class EventRecord(Value):
    """What a leading driver's log said of the link, at `at` (ms); `number`: among all events of the
    link; `level`: info, warning or error; `about`: more of it, such as partition and reason."""

    number: int
    at: int
    level: str
    event: str
    about: Mapping[str, str]


class Deletion(Value):
    """Takes a partition's progress ("topic") or an offset map ("offsets") out of the topic. `to`:
    see OffsetMapRecord."""

    source: TopicPartition
    of: Literal["topic", "offsets"]
    to: TopicPartition | None = None


Entry = (
    Progress
    | LeaseRecord
    | OffsetMapRecord
    | TaskRecord
    | TransformRecord
    | DirectivesRecord
    | EventRecord
    | Deletion
)


def encode(entry: Entry, now_ms: int) -> tuple[bytes, bytes | None]:
    """`entry` as key and value of a record written at `now_ms`."""
    key: dict[str, Any]
    value: dict[str, Any]
    if isinstance(entry, Deletion):
        return _dump(_name(entry.of, entry.source, entry.to)), None
    if isinstance(entry, LeaseRecord):
        key = {"lease": entry.link}
        value = {
            "v": VERSION,
            "owner": entry.owner,
            "process": entry.process,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "lease_s": entry.lease_s,
            "released": entry.released,
            "progress_lost": entry.progress_lost,
            "reached": entry.reached,
            "source_cluster": entry.source_cluster,
            "target_cluster": entry.target_cluster,
            "written_at": now_ms,
        }
    elif isinstance(entry, OffsetMapRecord):
        key = _name("offsets", entry.source, entry.to)
        value = {
            "v": VERSION,
            "producer_id": entry.producer_id,
            "points": offset_map.encode(entry.points),
            "since": entry.since,
        }
    elif isinstance(entry, TaskRecord):
        key = {"task": entry.name}
        value = {
            "v": VERSION,
            "reason": entry.reason,
            "items": dict(entry.items),
            "figures": dict(entry.figures),
            "done_at": entry.done_at,
            "written_at": now_ms,
        }
    elif isinstance(entry, TransformRecord):
        key = {"transform": entry.name}
        value = {
            "v": VERSION,
            "hash": entry.identity,
            **structs.asdict(entry.counts),
            "reason": entry.reason,
            "written_at": now_ms,
        }
    elif isinstance(entry, DirectivesRecord):
        key = {"directives": entry.link}
        value = {
            "v": VERSION,
            "topic_id": entry.topic_id,
            "applied": entry.applied,
            "reason": entry.reason,
            "kinds": entry.kinds,
            "written_at": now_ms,
        }
    elif isinstance(entry, EventRecord):
        key = {"event": entry.number % EVENTS}
        value = {
            "v": VERSION,
            "number": entry.number,
            "at": entry.at,
            "level": entry.level,
            "event": entry.event,
            "about": dict(entry.about),
        }
    else:
        key = {"topic": entry.topic, "partition": entry.partition}
        value = {
            "v": VERSION,
            "topic_id": entry.topic_id,
            "leader_epoch": entry.leader_epoch,
            "position": entry.position,
            "outlets": [outlet_json(outlet) for outlet in entry.outlets],
            "keys_from": entry.keys_from,
            "transform": entry.transform,
            "state": entry.state.value,
            "reason": entry.reason,
            "source_end": entry.source_end,
            "last_timestamp": entry.last_timestamp,
            "dated": entry.dated,
            "gone_at": entry.gone_at,
            "begun": entry.begun,
            "first_copy_end": entry.first_copy_end,
            "loss": entry.loss,
            "lost": entry.lost,
            "acknowledged": entry.acknowledged,
            "written_at": now_ms,
        }
    return _dump(key), _dump(value)


def decode(key: bytes | None, value: bytes | None) -> Entry | None:
    """The reverse; None for a deletion that is not ours. Raises ProtocolError for what Causeway did
    not write."""
    if key is None:
        raise ProtocolError("read progress", cause="a record without a key")
    try:
        name = json.loads(key)
        if value is None:
            return _deletion(name)
        fields = json.loads(value)
        if fields["v"] != VERSION:
            raise ProtocolError(
                "read progress",
                cause=f"it is in format {fields['v']}, this version knows {VERSION}",
                remedy="run the newer version of Causeway",
            )
        if "lease" in name:
            return LeaseRecord(
                link=name["lease"],
                owner=fields["owner"],
                process=fields["process"],
                producer_id=fields["producer_id"],
                producer_epoch=fields["producer_epoch"],
                lease_s=fields["lease_s"],
                released=fields["released"],
                progress_lost=fields.get("progress_lost", False),  # older ones lack it
                reached=fields.get("reached", 0),
                source_cluster=fields.get("source_cluster"),
                target_cluster=fields.get("target_cluster"),
                written_at=fields["written_at"],
            )
        if "offsets" in name:
            return OffsetMapRecord(
                topic=name["offsets"],
                partition=name["partition"],
                producer_id=fields["producer_id"],
                points=tuple(offset_map.decode(fields["points"])),
                to=_to(name),
                since=fields.get("since"),  # older ones lack it
            )
        if "task" in name:
            return TaskRecord(
                name=name["task"],
                reason=fields["reason"],
                items=fields["items"],
                figures=fields.get("figures", {}),  # older ones lack it
                done_at=fields["done_at"],
                written_at=fields["written_at"],
            )
        if "transform" in name:
            return TransformRecord(
                name=name["transform"],
                identity=fields["hash"],
                counts=msgspec.convert(
                    {
                        each: fields[each]
                        for each in Transformed.__struct_fields__
                        if each in fields  # earlier versions count fewer things
                    },
                    Transformed,
                ),
                reason=fields["reason"],
                written_at=fields["written_at"],
            )
        if "directives" in name:
            return DirectivesRecord(
                link=name["directives"],
                topic_id=fields["topic_id"],
                applied=fields["applied"],
                reason=fields["reason"],
                kinds=tuple(fields.get("kinds", ())),
                written_at=fields["written_at"],
            )
        if "event" in name:
            return EventRecord(
                number=fields["number"],
                at=fields["at"],
                level=fields["level"],
                event=fields["event"],
                about=fields["about"],
            )
        return Progress(
            topic=name["topic"],
            partition=name["partition"],
            topic_id=fields["topic_id"],
            leader_epoch=fields["leader_epoch"],
            position=fields["position"],
            outlets=tuple(outlet_of(item) for item in fields["outlets"]),
            keys_from=fields.get("keys_from", 0),
            transform=fields.get("transform"),
            state=State(fields["state"]),
            reason=fields["reason"],
            source_end=fields["source_end"],
            last_timestamp=fields["last_timestamp"],
            dated=None if fields.get("dated") is None else Dated(*fields["dated"]),
            gone_at=fields.get("gone_at", -1),
            begun=fields.get("begun", -1),
            first_copy_end=fields.get("first_copy_end", -1),
            loss=None if fields.get("loss") is None else Loss(*fields["loss"]),
            lost=fields.get("lost", 0),
            acknowledged=fields.get("acknowledged", 0),
            written_at=fields["written_at"],
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ProtocolError(
            "read progress", cause=f"a record that Causeway did not write ({error!r})"
        ) from error


def _deletion(name: dict[str, Any]) -> Deletion | None:
    for of in ("topic", "offsets"):
        if of in name:
            source = TopicPartition(name[of], name["partition"])
            return Deletion(source=source, of=of, to=_to(name))
    return None


def _name(
    of: Literal["topic", "offsets"], source: TopicPartition, to: TopicPartition | None
) -> dict[str, Any]:
    name: dict[str, Any] = {of: source.topic, "partition": source.partition}
    return name if to is None else {**name, "to": list(to)}


def _to(name: dict[str, Any]) -> TopicPartition | None:
    return TopicPartition(*name["to"]) if "to" in name else None


def _dump(value: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a reason may hold what is no UTF-8, such as the name of a file
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
