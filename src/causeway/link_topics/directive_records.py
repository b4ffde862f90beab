"""The records of a directives topic: keys and values in JSON.

key    {"do": "pause", "topic": "orders", "partition": 3}     of a topic without "partition", of
                                                              the link without both
value  {"v": 1, "who": "anna@ops1", "why": …, "at": …, "paused": true}

After "at", a value holds the fields of the directive's class, in their order: see directives.py. A
target of a cut is [topic, partition, offset]. "adopt" is left out if it is false; "until" and "run"
are left out of an end that no command renews. A record without a value takes a directive back.

Fields that this version does not know are ignored; fields that an earlier version did not write
have their default.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs

from causeway.errors import ProtocolError
from causeway.link_topics.directives import (
    CLASSES,
    Cut,
    DirectiveChange,
    DirectiveKind,
    EndDirective,
    RestartDirective,
    Scope,
)

VERSION = 1
# Fields that every version wrote: a record without one of them is not ours.
_ALWAYS: Mapping[DirectiveKind, tuple[str, ...]] = {
    DirectiveKind.PAUSE: ("paused",),
    DirectiveKind.FENCE: ("acls",),
    DirectiveKind.CUTOVER: ("run",),
    DirectiveKind.END: ("how", "done", "cut"),
    DirectiveKind.BEGIN: ("starts",),
}


def encode_directive(change: DirectiveChange) -> tuple[bytes, bytes | None]:
    """Key and value of its record."""
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
    if isinstance(directive, RestartDirective) and not directive.adopt:
        del fields["adopt"]
    elif isinstance(directive, EndDirective) and directive.until < 0:
        del fields["until"], fields["run"]
    if isinstance(directive, EndDirective) and directive.cut is not None:
        fields["cut"] = _cut_fields(directive.cut)
    value = {"v": VERSION, **fields}
    return msgspec.json.encode(key), msgspec.json.encode(value, enc_hook=dict)


def decode_directive(key: bytes | None, value: bytes | None) -> DirectiveChange:
    """The reverse. Raises ProtocolError for a record that this version did not write."""
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


def _cut_fields(cut: Cut) -> dict[str, Any]:
    points = [
        structs.asdict(point) | {"targets": [[*at, offset] for at, offset in point.targets]}
        for point in cut.points
    ]
    return structs.asdict(cut) | {"points": points}
