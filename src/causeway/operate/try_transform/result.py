"""The result of a trial of a transform: values and JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from causeway.config import LinkSettings, TransformSettings
from causeway.model import TopicPartition

# Called with the text of a step that takes time.
OnStep = Callable[[str], None]


class TrialOutcome(StrEnum):
    SAME = "same"  # the same bytes
    CHANGED = "changed"  # other bytes, several records, or another topic or partition
    DROPPED = "dropped"
    REFUSED = "refused"  # would stop its partition, or go to the dead-letter topic
    FAILS = "fails"  # the query throws; same effect


class Decoded(NamedTuple):
    """The content of a part in a registry's wire format; `schema`: the id in the data."""

    schema: int
    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a record. `topic`, `partition`: where the transform sends it, None: to the
    mirror; `topic` is a name on the source. `decoded`: key and value that a schema can decode; only
    the bytes decide whether two contents are equal."""

    timestamp: int  # ms
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str | None = None
    partition: int | None = None
    decoded: Mapping[str, Decoded] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """`before` None: the record cannot be decoded. `reason`: why it is refused, or the class of the
    query's error."""

    at: TopicPartition
    offset: int
    before: Content | None
    after: tuple[Content, ...]
    outcome: TrialOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """`transform` None: the link relays `topic` unchanged, and nothing was tried."""

    link: LinkSettings
    topic: str
    transform: TransformSettings | None
    sql: str | None
    records: tuple[Tried, ...]


def as_json(trial: Trial) -> dict[str, Any]:
    """JSON for `--json`. Data with a known schema is `{"schema_id": …, "json": …}`; other data that
    is not UTF-8 is `{"base64": …}`."""
    transform = trial.transform
    return {
        "link": trial.link.name,
        "topic": trial.topic,
        "transform": transform and transform.name,
        "kind": transform and transform.kind,
        "sql": trial.sql,
        "records": [
            {
                "partition": one.at.partition,
                "offset": one.offset,
                "outcome": one.outcome,
                "reason": one.reason,
                "before": one.before and _content_json(one.before),
                "after": [
                    {
                        **_content_json(made),
                        "topic": target_topic(trial, made),
                        "partition": made.partition,
                    }
                    for made in one.after
                ],
            }
            for one in trial.records
        ],
    }


def target_topic(trial: Trial, made: Content) -> str:
    """The topic on the target, by the policy of the link."""
    policy, alias = trial.link.policy, trial.link.source.alias
    return policy.format_remote_topic(alias, made.topic or trial.topic)


def _content_json(content: Content) -> dict[str, Any]:
    return {
        "timestamp": content.timestamp,
        "key": _part_json(content.key, content.decoded.get("key")),
        "value": _part_json(content.value, content.decoded.get("value")),
        "headers": [[name, _bytes_json(value)] for name, value in content.headers],
    }


def _part_json(data: bytes | None, decoded: Decoded | None) -> Any:
    if decoded is None:
        return _bytes_json(data)
    return {"schema_id": decoded.schema, "json": json.loads(decoded.json)}


def _bytes_json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
