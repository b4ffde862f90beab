"""The records of a link's topics: keys and values in JSON.

Of the progress topic:

key    {"topic": "orders", "partition": 3}      of the source
value  {"v": 1, "topic_id": …, "leader_epoch": …, "position": …, "outlets": [{…}], …}
key    {"offsets": "orders", "partition": 3}    an outlet's offset map; outlets other than the
                                                first also have "to": [topic, partition]
value  {"v": 1, "producer_id": …, "points": […], "since": …}
key    {"task": "checkpoints"}
key    {"transform": "pii"}
value  {"v": 1, "hash": …, "records_in": …, …, "reason": …, "written_at": …}
key    {"directives": "A->B"}
key    {"event": 17}                            its number modulo EVENTS
key    {"lease": "A->B"}

Other values have the fields of their class in entries.py, in that order, without the fields of the
key. The fields of a pair are among the fields of its outlet.

Of the directives topic:

key    {"do": "pause", "topic": "orders", "partition": 3}     without "partition" for a topic,
                                                              without both for the link
value  {"v": 1, "who": "anna@ops1", "why": …, "at": …, "paused": true}

After "at", a value has the fields of the directive's class, in their order: see directives.py. A
target of a cut is [topic, partition, offset]. "adopt", "translate", "refill", "translated", and
"preserves" of a cut are left out if they have their default. "until" and "run" are left out of an
end that no command renews. A record without a value takes a directive back.

Fields that this version does not know are ignored. Fields that an earlier version did not write
have their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import structs

from causeway.errors import ProtocolError
from causeway.link_topics import offset_map
from causeway.link_topics.directives import (
    CLASSES,
    BeginDirective,
    DirectiveChange,
    DirectiveKind,
    EndDirective,
    RestartDirective,
    Scope,
)
from causeway.link_topics.entries import (
    EVENTS,
    Deletion,
    DirectivesRecord,
    Entry,
    EventRecord,
    LeaseRecord,
    OffsetMapRecord,
    Outlet,
    PartitionProgress,
    TaskRecord,
    Transformed,
    TransformRecord,
)
from causeway.model import TopicPartition

VERSION: Final = 1
OFFSET_MAP: Final = b'{"offsets"'  # the beginning of the keys of offset maps
LEASE: Final = b'{"lease"'
# By the first name in a key: the class, and the fields in the key, in order.
_CLASSES: Final = {
    "lease": (LeaseRecord, ("link",)),
    "offsets": (OffsetMapRecord, ("topic", "partition", "to")),
    "task": (TaskRecord, ("name",)),
    "transform": (TransformRecord, ("name",)),
    "directives": (DirectivesRecord, ("link",)),
    "event": (EventRecord, ()),
    "topic": (PartitionProgress, ("topic", "partition")),
}
_KEYS: Final = {entry: (kind, fields) for kind, (entry, fields) in _CLASSES.items()}


def encode_entry(entry: Entry, now_ms: int) -> tuple[bytes, bytes | None]:
    """Returns the key and value of the record for `entry`, written at `now_ms`."""
    if isinstance(entry, Deletion):
        return _dump(_key(entry.of, [*entry.source, entry.to])), None
    kind, in_key = _KEYS[type(entry)]
    fields = structs.asdict(entry)
    name = [fields.pop(each) for each in in_key]
    if isinstance(entry, EventRecord):
        name = [entry.number % EVENTS]
    elif isinstance(entry, OffsetMapRecord):
        fields["points"] = offset_map.encode(entry.points)
    elif isinstance(entry, TransformRecord):
        counts = structs.asdict(fields.pop("counts"))
        fields = {"hash": fields.pop("identity"), **counts, **fields}
    elif isinstance(entry, PartitionProgress):
        fields["outlets"] = list(map(_outlet_fields, entry.outlets))
        if entry.offsets_from == -1:
            del fields["offsets_from"]
    elif isinstance(entry, LeaseRecord) and entry.settings is None:
        del fields["settings"]
    if "written_at" in fields:
        fields["written_at"] = now_ms
    return _dump(_key(kind, name)), _dump({"v": VERSION, **fields})


def decode_entry(key: bytes | None, value: bytes | None) -> Entry | None:
    """Returns the reverse of `encode_entry`. None for a deletion that Causeway did not write.
    Raises ProtocolError for any other record that Causeway did not write."""
    if key is None:
        raise ProtocolError("read progress", cause="a record without a key")
    try:
        name = msgspec.json.decode(key)
        if value is None:
            return _deletion(name)
        fields = msgspec.json.decode(value)
        if fields["v"] != VERSION:
            raise ProtocolError(
                "read progress",
                cause=f"it is in format {fields['v']}, this version knows {VERSION}",
                remedy="run the newer version of Causeway",
            )
        kind = next(kind for kind in _CLASSES if kind in name)
        return _entry(kind, name, fields)
    except (KeyError, TypeError, ValueError, RecursionError, StopIteration) as error:
        raise ProtocolError(
            "read progress", cause=f"a record that Causeway did not write ({error!r})"
        ) from error


def _entry(kind: str, name: dict[str, Any], fields: dict[str, Any]) -> Entry:
    entry, in_key = _CLASSES[kind]
    if in_key:
        first, *others = in_key
        fields[first] = name[kind]
        fields.update((each, name[each]) for each in others if each in name)
    if entry is OffsetMapRecord:
        fields["points"] = offset_map.decode(fields["points"])
    elif entry is TransformRecord:
        fields["identity"] = fields.pop("hash")
        fields["counts"] = {each: fields[each] for each in _COUNTS if each in fields}
    elif entry is PartitionProgress:
        for outlet in fields["outlets"]:
            pair = outlet["source"], outlet["target"], outlet["sequence"]
            # All versions wrote `exclusive`. Its default would mean that no other client has
            # written.
            outlet |= {"pair": pair, "exclusive": outlet["exclusive"]}
    converted: Entry = msgspec.convert(fields, entry)
    return converted


_COUNTS: Final = Transformed.__struct_fields__


def _deletion(name: dict[str, Any]) -> Deletion | None:
    for of in ("topic", "offsets"):
        if of in name:
            to = TopicPartition(*name["to"]) if "to" in name else None
            return Deletion(source=TopicPartition(name[of], name["partition"]), of=of, to=to)
    return None


def _key(kind: str, name: list[Any]) -> dict[str, Any]:
    key = dict(zip((kind, "partition", "to"), name, strict=False))
    if key.get("to", ...) is None:
        del key["to"]
    return key


def _outlet_fields(outlet: Outlet) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in structs.asdict(outlet).items():
        fields |= value._asdict() if name == "pair" else {name: value}
    if not outlet.differs_to:
        del fields["differs_to"]  # earlier versions did not know it
    return fields


def _dump(value: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=dict)  # for a Mapping that is not a dict
    except UnicodeEncodeError:  # a reason may have the name of a file, which need not be UTF-8
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=dict)
        return text.encode(errors="replace")


# Fields that all versions wrote: Causeway did not write a record without one of them.
_ALWAYS: Mapping[DirectiveKind, tuple[str, ...]] = {
    DirectiveKind.PAUSE: ("paused",),
    DirectiveKind.FENCE: ("acls",),
    DirectiveKind.CUTOVER: ("run",),
    DirectiveKind.END: ("how", "done", "cut"),
    DirectiveKind.BEGIN: ("starts",),
}


def encode_directive(change: DirectiveChange) -> tuple[bytes, bytes | None]:
    """Returns the key and value of the record for `change`."""
    (kind, (topic, partition)), directive = change
    key: dict[str, Any] = {"do": kind.value}
    if topic is not None:
        key["topic"] = topic
    if partition is not None:
        key["partition"] = partition
    if directive is None:
        return msgspec.json.encode(key), None
    fields = structs.asdict(directive)
    del fields["scope"]
    if isinstance(directive, RestartDirective):
        for name in ("adopt", "translate", "refill"):
            if not fields[name]:
                del fields[name]
    elif isinstance(directive, BeginDirective) and not directive.translated:
        del fields["translated"]
    elif isinstance(directive, EndDirective) and directive.until < 0:
        del fields["until"], fields["run"]
    if isinstance(directive, EndDirective) and directive.cut is not None:
        points = [
            structs.asdict(point) | {"targets": [[*at, offset] for at, offset in point.targets]}
            for point in directive.cut.points
        ]
        fields["cut"] = structs.asdict(directive.cut) | {"points": points}
        if not directive.cut.preserves:
            del fields["cut"]["preserves"]
    value = {"v": VERSION, **fields}
    return msgspec.json.encode(key), msgspec.json.encode(value, enc_hook=dict)


def decode_directive(key: bytes | None, value: bytes | None) -> DirectiveChange:
    """Returns the reverse of `encode_directive`. Raises ProtocolError for a record that this
    version did not write."""
    try:
        name = msgspec.json.decode(key or b"")
        kind = DirectiveKind(name["do"])
        scope = msgspec.convert((name.get("topic"), name.get("partition")), Scope)
        if scope.topic is None and scope.partition is not None:
            raise ValueError(f"no scope: {name!r}")  # noqa: TRY301
        if value is None:
            return (kind, scope), None
        fields = msgspec.json.decode(value)
        if fields["v"] != VERSION:
            raise ValueError(f"version {fields['v']!r}")  # noqa: TRY301
        _require(fields, "why", *_ALWAYS.get(kind, ()))
        if kind is DirectiveKind.END and fields["cut"] is not None:
            _require(fields["cut"], "source_id", "target_id")
            for point in fields["cut"]["points"]:
                point["targets"] = [(at, offset) for *at, offset in point["targets"]]
        directive = msgspec.convert(fields | {"scope": scope}, CLASSES[kind], str_keys=True)
        datetime.fromtimestamp(directive.at / 1000, UTC)  # a time that can be shown
    except (
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        OSError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ProtocolError(
            "read directives", cause=f"a record that this Causeway did not write ({error!r})"
        ) from error
    return directive.key, directive


def _require(fields: dict[str, Any], *names: str) -> None:
    for name in names:
        if name not in fields:
            raise ValueError(f"it lacks {name}")
