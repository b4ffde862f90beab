"""Random Avro schemas with data that fits them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any, cast

import fastavro
from hypothesis import strategies as st


def written(schema: Any, datum: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return stream.getvalue()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
_UNIT = {"millis": 1000, "micros": 1}


def _rounded(moment: Any, unit: str) -> Any:
    return moment.replace(microsecond=moment.microsecond // _UNIT[unit] * _UNIT[unit])


def _logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
    ("double", st.floats(allow_nan=False, allow_infinity=False)),
    ("string", TEXT),
    ("bytes", st.binary(max_size=8)),
    (_logical("string", "uuid"), st.uuids()),
    (_logical("int", "date"), st.dates()),
    (_logical("int", "time-millis"), st.times().map(lambda at: _rounded(at, "millis"))),
    (_logical("long", "time-micros"), st.times()),
    *(
        (
            _logical("long", f"{where}timestamp-{unit}"),
            _MOMENTS.map(lambda at, u=unit, z=zone: _rounded(at, u).replace(tzinfo=z)),  # type: ignore[misc]
        )
        for unit in _UNIT
        for where, zone in (("", UTC), ("local-", None))
    ),
    (
        _logical("bytes", "decimal", precision=9, scale=3),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-3)),
    ),
]


@st.composite
def schemas(draw: Any, names: Any, depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and what fits it."""
    kind = draw(
        st.sampled_from(["leaf"] * 3 + ["record", "array", "map", "union", "enum", "fixed"])
    )
    if depth > 2 or kind == "leaf":
        return cast("tuple[Any, Any]", draw(st.sampled_from(LEAVES)))
    name = f"N{next(names)}"
    inner = schemas(names, depth + 1)
    match kind:
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from("AB")
        case "fixed":
            return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
        case "array":
            schema, data = draw(inner)
            return {"type": "array", "items": schema}, st.lists(data, max_size=3)
        case "map":
            schema, data = draw(inner)
            return {"type": "map", "values": schema}, st.dictionaries(TEXT, data, max_size=3)
        case "union":
            schema, data = draw(inner.filter(lambda one: not isinstance(one[0], list)))
            if schema == "null":
                return ["null"], data
            return ["null", schema], st.none() | data
    found = [draw(inner) for _ in range(draw(st.integers(0, 3)))]
    fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(found)]
    data = st.fixed_dictionaries({f"f{i}": one for i, (_, one) in enumerate(found)})
    return {"type": "record", "name": name, "fields": fields}, data
