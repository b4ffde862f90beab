"""Refuses Spark SQL that reads the time of day in a hidden way.

- `TIMESTAMP 'now'`, `DATE 'today'`, `CAST('now' AS TIMESTAMP)`, `to_date('tomorrow')` and
  `year('yesterday')` are the time at which the query is planned. The words count in constants
  only, in any case, and with white space or a time zone around them.
- `CAST('12:30' AS TIMESTAMP)`, of a constant or of a record's text, is today at 12:30.
- The same is true of a TIMESTAMP of '12:30' from from_json, from_csv, from_xml and variants.

Such a record would become another one if it were sent again. Constants, and parsers that accept a
time without a date, are refused at the start. In a cast of a record's text, a time without a date
is replaced by a text that is no timestamp. The cast then fails, or gives NULL, as for any such
text. Sources: SparkDateTimeUtils.scala (parseTimestampString, convertSpecialDate) and
SpecialDatetimeValues in Spark 4.3."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType, TimestampType

from causeway.transform.plan.catalyst import Catalyst, Node, each, name, type_of

# For Java and Python. Spark trims the characters up to and including the space, and DEL.
_SPACE = r"[\x00-\x20\x7f]*"
NO_DATE = rf"^{_SPACE}(T|[0-9]*:)"
_READS_CLOCK = re.compile(rf"{NO_DATE}|^{_SPACE}(now|today|tomorrow|yesterday)", re.IGNORECASE)
_TYPED = re.compile(r"\s*(?:date|timestamp(?:_ntz|_ltz)?)\b", re.IGNORECASE)
_TIMES = ("date", "timestamp", "timestamp_ntz")
_PARSERS = {
    "JsonToStructs": "from_json",
    "CsvToStructs": "from_csv",
    "XmlToStructs": "from_xml",
}
_FALLBACK = "enabledatetimeparsingfallback"
_WHEN = "depends on the time of evaluation"
_TEXT_FIRST = "read it as a STRING, and cast that"


def reads_clock(text: str) -> bool:
    """Returns whether Spark makes a time that depends on the clock from the constant `text`."""
    return _READS_CLOCK.search(text) is not None


def expressions(plan: Node, catalyst: Catalyst) -> Iterator[Node]:
    """Yields all expressions of `plan` and their parts, after Spark has replaced functions."""
    todo = [catalyst.replaced(plan)]
    while todo:
        node = todo.pop()
        todo += each(node.children())
        parts = [*each(node.expressions())]
        while parts:
            part = parts.pop()
            yield part
            parts += each(part.children())


def problem(expression: Node, parse: Any) -> str | None:
    """Returns why the expression would read the clock; None if it does not. `parse`: Spark's parser
    of expressions."""
    kind = name(expression)
    if kind == "Literal" and type_of(expression) in _TIMES:
        text = _typed_text(expression, parse)
        return None if text is None or not reads_clock(text) else _constant(expression, text)
    if kind == "Cast":
        return _of_cast(expression)
    if kind == "VariantGet" and _has_timestamp(expression):
        return f"a TIMESTAMP out of a VARIANT {_WHEN} if it has no date ({_TEXT_FIRST})"
    if kind in _PARSERS and _has_timestamp(expression):
        options = {str(key).lower() for key in each(expression.options().keys().toSeq())}
        if "timestampformat" not in options or _FALLBACK in options:
            return (
                f"a TIMESTAMP of {_PARSERS[kind]}() {_WHEN} if it has no date (give it the option "
                f"`timestampFormat`, or {_TEXT_FIRST})"
            )
    return None


def takes_times(expression: Node) -> bool:
    """Returns whether the expression makes a timestamp from a record's text, which may have no
    date."""
    return (
        name(expression) == "Cast"
        and type_of(expression) == "timestamp"
        and _is_text(expression.child())
        and not expression.child().foldable()
    )


def without_date(text: Column, type_: Any) -> Column | None:
    """Returns whether the JSON `text`, read as the DataType `type_`, has a timestamp without a
    date. None if `type_` has no timestamps."""
    probe = _probe(type_)
    if probe is None:
        return None
    found = _any_without_date(sf.from_json(text, probe), probe)
    return sf.coalesce(found, sf.lit(False))


def _probe(type_: Any) -> Any:
    """Returns the part of `type_` that leads to timestamps, with texts in their place. None if
    there are no timestamps."""
    match type_:
        case TimestampType():
            return StringType()
        case ArrayType():
            inner = _probe(type_.elementType)
            return None if inner is None else ArrayType(inner)
        case MapType():
            inner = _probe(type_.valueType)
            return None if inner is None else MapType(type_.keyType, inner)
        case StructType():
            probes = [(field.name, _probe(field.dataType)) for field in type_.fields]
            fields = [StructField(name, inner) for name, inner in probes if inner is not None]
            return StructType(fields) if fields else None
    return None


def _any_without_date(column: Column, probe: Any) -> Column:
    def inner(type_: Any) -> Any:
        return lambda one: sf.coalesce(_any_without_date(one, type_), sf.lit(False))

    match probe:
        case ArrayType():
            return sf.exists(column, inner(probe.elementType))
        case MapType():
            return sf.exists(sf.map_values(column), inner(probe.valueType))
        case StructType():
            parts = (inner(field.dataType)(column.getField(field.name)) for field in probe.fields)
            return reduce(operator.or_, parts)
    return column.rlike(NO_DATE)


def _of_cast(cast: Node) -> str | None:
    child, to = cast.child(), type_of(cast)
    if _is_text(child):
        if to not in _TIMES or not child.foldable():
            return None
        text = _evaluated(child)
        return None if text is None or not reads_clock(text) else _constant(cast, text)
    if not _has_timestamp(cast):
        return None
    given = json.loads(child.dataType().json())
    if given == "variant":
        return f"a TIMESTAMP out of a VARIANT {_WHEN} if it has no date ({_TEXT_FIRST})"
    if isinstance(given, dict) and not _only_timestamps(given):
        return f"a TIMESTAMP of a text {_WHEN} if it has no date (cast each text by itself)"
    return None


def _only_timestamps(given: dict[str, Any]) -> bool:
    """Returns whether no text in the nested type `given` could become a timestamp."""
    return not any(leaf.startswith(("string", "varchar", "char")) for leaf in _leaves(given))


def _constant(node: Node, text: str) -> str:
    to = type_of(node).upper()
    return (
        f"the {to} of the constant '{text.strip()}' {_WHEN}, and a record must become the same "
        "whenever it is sent again (write a whole date)"
    )


def _typed_text(literal: Node, parse: Any) -> str | None:
    """Returns the text in the quotes of TIMESTAMP '…'; None for a literal of another origin."""
    origin = literal.origin()
    places = (origin.startIndex(), origin.stopIndex())
    if origin.sqlText().isEmpty() or any(place.isEmpty() for place in places):
        return None
    start, stop = (place.get() for place in places)
    # Java counts UTF-16 units.
    units = str(origin.sqlText().get()).encode("utf-16-le")[2 * start : 2 * (stop + 1)]
    text = units.decode("utf-16-le")
    typed = _TYPED.match(text)
    if typed is None:
        return None
    return str(parse(text[typed.end() :]).value())


def _evaluated(expression: Node) -> str | None:
    try:
        found = expression.eval(None)
    except Exception:  # an error of Spark: the constant throws, or another check refuses it
        return None
    return None if found is None else str(found)


def _is_text(node: Node) -> bool:
    return type_of(node).startswith(("string", "varchar", "char"))


def _has_timestamp(node: Node) -> bool:
    return "timestamp" in _leaves(json.loads(node.dataType().json()))


def _leaves(type_: Any) -> list[str]:
    """Returns the names of the types that are not nested, in a DataType's JSON."""
    if isinstance(type_, str):
        return [type_]
    inner = [field["type"] for field in type_.get("fields", ())]
    inner += [type_[key] for key in ("elementType", "keyType", "valueType") if key in type_]
    if isinstance(type_["type"], dict):
        inner.append(type_["type"])
    return [leaf for one in inner for leaf in _leaves(one)]
