"""The postlude: makes records from the columns that a query projects.

| column | may be |
|---|---|
| key, value | string (UTF-8); binary, unless avro or protobuf; with these or json: struct, … |
| headers | array<struct<key string, value string or binary>>, or a map of those |
| timestamp | timestamp, date, or a whole number: milliseconds |
| topic | string; null: the mirror's own topic |
| partition | a whole number; null: the source's partition |"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from causeway.config import NOT_A_NAME, NOT_A_PARTITION
from causeway.transform.plan.catalyst import Node, QueryPlace, each, id_of, name, place
from causeway.transform.plan.prelude import RecordPart
from causeway.transform.plan.refusals import PlanProblem, QueryFacts
from causeway.transform.rows import CHUNK, HEADERS_TYPE, MARK, MISSING, REASON, SEEN
from causeway.transform.schema_formats import HEAD, NO_HEAD

NAMES = ("key", "value", "headers", "timestamp", "topic", "partition")
# The remedy for a query that leaves a part out.
_INSTEAD = {
    "key": "write `NULL AS key` for records without a key",
    "value": "write `NULL AS value` for tombstones",
    "headers": "write `filter(headers, h -> false) AS headers` for none",
    **dict.fromkeys(("timestamp", "topic", "partition"), "each record has one: leave it in"),
}
_WHOLE_NUMBERS = {"tinyint", "smallint", "int", "bigint"}
_NESTED = {"struct", "array", "map", "variant"}
_TEXT = {"string", "binary", "void"}
_LAST_TIME = 2**63 // 1000 - 1  # ms, that Spark can express in µs
_TOPIC = r"^(?!\.{1,2}\z)[a-zA-Z0-9._-]{1,249}\z"


@dataclass(frozen=True, slots=True)
class Projected:
    """A column that replaces a part. `of_record`: it is `value` or made from it, so tombstones do
    not have it. `of_schema`: JSON that is written by a registry's schema."""

    name: str
    type: Any
    of_record: bool
    of_schema: bool = False


def recognise(
    plan: Node,
    schema: Any,
    facts: QueryFacts,
    both: tuple[RecordPart, RecordPart],
    left_out: Set[str],
    *,
    by_rules: bool,
) -> dict[str, Projected]:
    """Returns the columns of `plan` that replace a part; adds problems to `facts`. `left_out`: the
    names that the text of the query removes."""
    names = {*NAMES, *((SEEN, MISSING, REASON) if by_rules else ())}
    formats = {part.name: part for part in both}
    places = _places(plan)
    found: dict[str, Projected] = {}
    kept: set[str] = set()
    for column, field in zip(each(plan.output()), schema.fields, strict=True):
        one, shown = id_of(column), field.name
        label = shown.lower()
        same_as = facts.same_as.get(one)
        where = places.get(one, QueryPlace())
        if same_as == label and label not in found:
            kept.add(label)  # unchanged: not replaced
        elif problem := _problem(label, shown, field.dataType, names, formats.get(label)):
            facts.problems.append(PlanProblem(where, problem))
        elif label in found or label in kept:
            facts.problems.append(PlanProblem(where, f"it projects `{label}` twice"))
        elif one in facts.secret:
            problem = f"`{label}` would show a secret: use it within hmac, sha2, aes_encrypt, …"
            facts.problems.append(PlanProblem(where, problem))
        else:
            if same_as is not None:
                facts.used.add(same_as)
            of_record = not facts.names_null and (label == "value" or one in facts.from_value)
            of_schema = label in formats and formats[label].of_schema
            found[label] = Projected(label, field.dataType, of_record, of_schema)
    left_out = left_out | {facts.called[one] for one in left_out & facts.called.keys()}
    if "offset" in kept:  # only `*` has it, so a missing column was dropped in Python
        left_out = left_out | set(NAMES)
    for label in NAMES:
        if label in left_out and label not in found and label not in kept:
            problem = f"`{label}` is left out, but would stay as it is ({_INSTEAD[label]})"
            facts.problems.append(PlanProblem(QueryPlace(), problem))
    return found


def _places(plan: Node) -> Mapping[int, QueryPlace]:
    """Returns the place where each column gets its name."""
    found: dict[int, QueryPlace] = {}
    while plan.children().size() == 1 or name(plan) == "WithCTE":
        if name(plan) == "Project":
            aliases = (one for one in each(plan.projectList()) if name(one) == "Alias")
            # Spark gives an alias that it analyses once more the origin of the node around it.
            found |= {id_of(alias): place(alias.child()) for alias in aliases}
        plan = plan.plan() if name(plan) == "WithCTE" else plan.children().apply(0)
    return found


def _problem(
    label: str, shown: str, type_: Any, names: set[str], part: RecordPart | None
) -> str | None:
    if label not in names:
        known = ", ".join(NAMES)
        return f"`{shown}` is not a part of a record (project only {known}: name it with AS)"
    kind = type_.typeName() if type_.typeName() in _NESTED else type_.simpleString()
    if kind.startswith(("string", "varchar", "char")):
        kind = "string"
    fits, hint = True, ""
    match label:
        case "key" | "value":
            assert part is not None
            as_json = (part.format == "json" or part.of_schema) and kind in _NESTED
            fits = (kind in _TEXT and not (part.of_schema and kind == "binary")) or as_json
            hint = "to_json(…)" if kind in _NESTED else "CAST(… AS STRING)"
        case "headers":
            fits = _are_headers(type_)
            hint = "array(struct('name' AS key, … AS value)), or map('name', …)"
        case "timestamp":
            fits = kind in {"timestamp", "timestamp_ntz", "date", "int", "bigint"}
            hint = "a timestamp, or milliseconds as a BIGINT"
        case "partition":
            fits = kind in _WHOLE_NUMBERS
            hint = "an INT"
        case "topic" | "_reason":
            fits = kind in {"string", "void"}
            hint = "a STRING"
    return None if fits else f"`{label}` cannot be of the type {type_.simpleString()} (use {hint})"


def _are_headers(type_: Any) -> bool:
    def are(key: Any, value: Any) -> bool:
        return isinstance(key, StringType) and isinstance(value, StringType | BinaryType)

    if isinstance(type_, MapType):
        return are(type_.keyType, type_.valueType)
    element = type_.elementType if isinstance(type_, ArrayType) else None
    return (
        isinstance(element, StructType)
        and [one.lower() for one in element.names] == ["key", "value"]
        and are(element.fields[0].dataType, element.fields[1].dataType)
    )


def postlude(rows: DataFrame, found: Mapping[str, Projected]) -> DataFrame:
    """Returns rows of `rows.OUTPUT`, from the projection of the rewritten query and the hidden
    columns."""
    null = sf.lit(None)
    columns = {
        "topic": null.cast("string"),
        "partition": null.cast("int"),
        "offset": sf.col("__offset"),
        "timestamp": sf.col("__timestamp"),
        "key": sf.col("__key"),
        "value": sf.col("__value"),
        "headers": sf.col("__headers"),
    }
    reasons, by_rule = [], null.cast("string")
    bits = {name: sf.lit(0).cast("bigint") for name in (SEEN, MISSING)}
    for one in found.values():
        ready = sf.col("__whole") if one.of_record else sf.col("__live")
        tombstone = sf.col("__live") & ~sf.col("__whole")
        match one.name:
            case "_seen" | "_missing" as which:
                of_record = sf.when(ready, sf.col(which))
                bits[which] = sf.coalesce(of_record, bits[which]).cast("bigint")
                continue
            case "_reason":
                by_rule = sf.when(ready, sf.col(REASON).cast("string"))
                continue
            case "timestamp" if one.of_record:
                columns[one.name] = sf.when(ready, _encoded(one)).when(tombstone, columns[one.name])
            case "key" | "headers" if one.of_record:
                # The old part might reveal data that the query removes.
                why = f"a tombstone, and its {one.name} is made of the value"
                reasons.append(sf.when(tombstone, sf.lit(why)))
                columns[one.name] = sf.when(ready, _encoded(one))
            case _:
                columns[one.name] = sf.when(ready, _encoded(one))
        if one.name == "value":  # a marker's value has the records that need no Spark
            columns["value"] = columns["value"].when(
                sf.col("__mark").isNotNull(), sf.col("__value")
            )
        if wrong := _wrong(one):
            reasons.append(sf.when(ready & wrong[0], sf.lit(wrong[1])))
    return rows.select(
        sf.col("__chunk").alias(CHUNK),
        sf.col("__mark").alias(MARK),
        sf.coalesce(sf.col("__reason"), by_rule, *reasons).alias(REASON),
        *(column.alias(name) for name, column in bits.items()),
        *(column.alias(name) for name, column in columns.items()),
    )


def _encoded(one: Projected) -> Column:
    column, type_ = sf.col(one.name), one.type
    match one.name:
        case "key" | "value":
            if type_.typeName() in _NESTED:
                # Otherwise a default of the schema would replace a null.
                options = {"ignoreNullFields": "false"} if one.of_schema else None
                column = sf.to_json(column, options)
            if one.of_schema:
                return sf.concat(_head(f"__{one.name}"), column.cast("string").cast("binary"))
            return column.cast("binary")
        case "headers":
            entries = sf.map_entries(column) if isinstance(type_, MapType) else column
            return sf.coalesce(entries, sf.array()).cast(DataType.fromDDL(HEADERS_TYPE))
        case "timestamp" if isinstance(type_, IntegralType):
            return sf.timestamp_millis(sf.when(column.between(0, _LAST_TIME), column))
        case "timestamp":
            return column.cast("timestamp")
        case "partition":
            return column.try_cast("int")
    return column.cast("string")


def _head(raw: str) -> Column:
    """Returns the bytes that show the sink worker by which schema the part was written."""
    start = sf.rpad(sf.substring(sf.col(raw), 1, HEAD), HEAD, sf.lit(bytearray(1)))
    return sf.coalesce(start, sf.lit(bytearray(NO_HEAD)))


def _wrong(one: Projected) -> tuple[Column, str] | None:
    """Returns a condition under which the projection gives no valid record, and the reason."""
    column = sf.col(one.name)
    match one.name:
        case "headers" if not isinstance(one.type, MapType):
            nameless = sf.exists(column, lambda header: header["key"].isNull() | header.isNull())
            return sf.coalesce(nameless, sf.lit(False)), "a header has no key"
        case "timestamp":
            time = _encoded(one)
            early = time < sf.timestamp_millis(sf.lit(0).cast("bigint"))
            return time.isNull() | early, "its timestamp is null, or before 1970, or too late"
        case "topic":
            return ~column.rlike(_TOPIC), NOT_A_NAME
        case "partition":
            number = column.try_cast("int")
            wrong = column.isNotNull() & (number.isNull() | (number < 0))
            return wrong, NOT_A_PARTITION
    return None
