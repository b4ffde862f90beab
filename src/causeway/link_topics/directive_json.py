"""Directives as records of their topic, and as JSON for people's programs. Pure.

key    {"do": "pause", "topic": "orders", "partition": 3}     of a topic without "partition", of
                                                              the link without both
value  {"v": 1, "who": "anna@ops1", "why": …, "at": …, "paused": true}
key    {"do": "throttle", "topic": "orders"}
value  {"v": 1, "who": …, "why": …, "at": …, "bytes_per_s": 1000000}      null: no limit, though
                                                                          the file has one
key    {"do": "fence", "topic": "orders"}              nobody writes to it on the source any more
value  {"v": 1, "who": …, "why": …, "at": …, "until": …, "acls": [[…], …]}
key    {"do": "cutover"}                               somebody is at it, until then
value  {"v": 1, "who": …, "why": …, "at": …, "until": …, "run": …}
key    {"do": "restart", …}, {"do": "step-down"}
value  {"v": 1, "who": …, "why": …, "at": …, "adopt": true}       "adopt": of a restart, if true
key    {"do": "end", "topic": "orders"}                       of a link or a topic
value  {"v": 1, "who": …, "why": …, "at": …, "how": "promoted", "done": true, "cut": {…}}
                          "done": all that follows is done, too; "cut": of a topic, see cuts.py
value  {…, "how": "promoting", "until": …, "run": …}   as of a cutover, which renews it; missing in
                                                       those of earlier versions
key    {"do": "begin", "topic": "orders"}            claimed anew, once, from these source offsets
value  {"v": 1, "who": …, "why": …, "at": …, "starts": {"0": 1200, …}, "source_id": "…",
        "looked": {"0": 900, …}, "kept": {}}        the last three missing in those of earlier
                                                    versions
key    {"do": "mirror", "topic": "orders"}           chosen, whatever the file's `topics` say
value  {"v": 1, "who": …, "why": …, "at": …}
key    {"do": "origin"}                               of a link: which cluster its source is
value  {"v": 1, "who": …, "why": …, "at": …, "cluster": "MkU3OEVBNTcwNTJENDM2Qk"}

A record without a value takes a directive back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from causeway.errors import ProtocolError
from causeway.link_topics import cuts
from causeway.link_topics.directives import Change, Directive, FenceAcl, Kind, Scope
from causeway.model import NO_TOPIC_ID, State

VERSION = 1


def encode(change: Change) -> tuple[bytes, bytes | None]:
    """Key and value of its record."""
    (kind, scope), directive = change
    key: dict[str, Any] = {"do": kind.value}
    if scope.topic is not None:
        key["topic"] = scope.topic
    if scope.partition is not None:
        key["partition"] = scope.partition
    if directive is None:
        return _dump(key), None
    value: dict[str, Any] = {
        "v": VERSION,
        "who": directive.who,
        "why": directive.why,
        "at": directive.at,
    }
    if kind is Kind.PAUSE:
        value["paused"] = directive.paused
    elif kind is Kind.RESTART and directive.adopt:
        value["adopt"] = True
    elif kind is Kind.THROTTLE:
        value["bytes_per_s"] = directive.bytes_per_s
    elif kind is Kind.FENCE:
        value["until"], value["acls"] = directive.until, directive.acls
    elif kind is Kind.CUTOVER:
        value["until"], value["run"] = directive.until, directive.run
    elif kind is Kind.END:
        value |= {"how": directive.how.value, "done": directive.done}
        value["groups"] = directive.groups
        if directive.until >= 0:
            value["until"], value["run"] = directive.until, directive.run
        value["cut"] = None if directive.cut is None else cuts.as_json(directive.cut)
    elif kind is Kind.ORIGIN:
        value["cluster"] = directive.cluster
    elif kind is Kind.BEGIN:
        value["source_id"] = directive.source_id
        for name in ("starts", "looked", "kept"):
            offsets: Mapping[int, int] = getattr(directive, name)
            value[name] = {str(partition): at for partition, at in offsets.items()}
    return _dump(key), _dump(value)


def decode(key: bytes | None, value: bytes | None) -> Change:
    """The reverse. Raises ProtocolError for what this version did not write."""
    try:
        name = json.loads(key or b"")
        kind = Kind(name["do"])
        scope = Scope(name.get("topic"), name.get("partition"))
        if not _is_legal(scope):
            raise ValueError(f"no scope: {name!r}")  # noqa: TRY301
        if value is None:
            return (kind, scope), None
        fields = json.loads(value)
        if fields["v"] != VERSION:
            raise ValueError(f"version {fields['v']!r}")  # noqa: TRY301
        rate = fields["bytes_per_s"] if kind is Kind.THROTTLE else None
        if rate is not None and (not isinstance(rate, int) or rate <= 0):
            raise ValueError(f"a rate of {rate!r}")  # noqa: TRY301
        more: dict[str, Any] = {}
        if kind is Kind.END:
            cut = fields["cut"]
            more = {"how": State(fields["how"]), "done": bool(fields["done"])}
            more["groups"] = tuple(map(str, fields.get("groups", ())))  # older ones lack it
            more["cut"] = None if cut is None else cuts.of_json(cut)
            more |= {"until": int(fields.get("until", -1)), "run": str(fields.get("run", ""))}
        elif kind in (Kind.FENCE, Kind.CUTOVER):
            more = {"until": int(fields["until"])}
            more["run"] = str(fields["run"]) if kind is Kind.CUTOVER else ""
        elif kind is Kind.ORIGIN:
            more = {"cluster": str(fields["cluster"])}
        elif kind is Kind.BEGIN:
            fields = {"looked": {}, "kept": {}, "source_id": NO_TOPIC_ID, **fields}
            more = {
                name: {int(each): int(at) for each, at in fields[name].items()}
                for name in ("starts", "looked", "kept")
            }
            more["source_id"] = str(fields["source_id"])
        directive = Directive(
            kind=kind,
            scope=scope,
            who=str(fields["who"]),
            why=None if fields["why"] is None else str(fields["why"]),
            at=_time(fields["at"]),
            paused=bool(fields["paused"]) if kind is Kind.PAUSE else True,
            adopt=kind is Kind.RESTART and bool(fields.get("adopt")),
            bytes_per_s=rate,
            acls=_acls(fields["acls"]) if kind is Kind.FENCE else (),
            **more,
        )
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


def _time(found: Any) -> int:
    """One that can be shown."""
    at = int(found)
    datetime.fromtimestamp(at / 1000, UTC)
    return at


def _acls(found: list[list[str]]) -> tuple[FenceAcl, ...]:
    return tuple(FenceAcl(*map(str, each)) for each in found)


def _is_legal(scope: Scope) -> bool:
    topic, partition = scope
    if topic is None:
        return partition is None
    return isinstance(topic, str) and (partition is None or isinstance(partition, int))


def as_json(directive: Directive) -> dict[str, Any]:
    """For `--json` and pages."""
    found: dict[str, Any] = {
        "do": directive.kind.value,
        "topic": directive.scope.topic,
        "partition": directive.scope.partition,
        "who": directive.who,
        "why": directive.why,
        "at_ms": directive.at,
    }
    if directive.kind is Kind.PAUSE:
        found["paused"] = directive.paused
    elif directive.kind is Kind.THROTTLE:
        found["bytes_per_s"] = directive.bytes_per_s
    elif directive.kind is Kind.END:
        found |= {"how": directive.how.value, "done": directive.done}
    if directive.until >= 0:
        found["until_ms"] = directive.until
    return found


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
