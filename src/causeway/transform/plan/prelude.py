"""The prelude: makes the columns of the view `records` from a record's bytes.

rows of `rows.INPUT` ─► __chunk, __mark, __offset, __topic, …   unchanged, for parts not projected
                        __reason                                why the record is refused
                        __live                                  a record that is not refused
                        __whole                                 live, and no tombstone
                        topic, partition, …, key, value         what the query sees"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructType

from causeway.config import TransformFormat, TransformSettings
from causeway.transform.json_text import NOT_JSON, is_json, reading
from causeway.transform.plan.clock import without_date
from causeway.transform.rows import (
    CHUNK,
    LACKING,
    MARK,
    REASON,
    SCHEMA_FORMATS,
    SECRETS,
    TEXTS,
    VISIBLE,
)

HIDDEN = (
    *("__chunk", "__mark", "__reason", "__live", "__whole"),
    *("__offset", "__timestamp", "__key", "__value", "__headers"),
)
_MISFIT = "__misfit"


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A key or value. `type`: the DataType of its schema, if it has one."""

    name: str  # key or value
    format: TransformFormat
    type: Any = None
    checked: bool = True  # check here that it is JSON; rules check that themselves

    @property
    def raw(self) -> str:
        return f"__{self.name}"

    @property
    def of_schema(self) -> bool:
        """In a registry's wire format: the source worker converts it to JSON."""
        return self.format in SCHEMA_FORMATS

    @property
    def _parsed(self) -> str:
        return f"__{self.name}_parsed"

    def _text(self) -> Column:
        if self.of_schema:
            return sf.col(f"__{TEXTS[self.name]}")
        return sf.col(self.raw).cast("string")

    @property
    def _is_json(self) -> bool:
        """Whether the prelude checks its text. It does not if rules check the text of a part
        without a schema, or if the source worker has made it JSON by a registry's schema."""
        return self.format == "json" and (self.checked or self.type is not None)

    def parsed(self) -> list[Column]:
        """Returns the column that both `reason` and `column` need, if there is one."""
        if self.type is None:
            return []
        # The value of a marker is not text.
        text = sf.when(sf.col("__mark").isNull(), self._text())
        shape = self.type
        options = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
        if isinstance(shape, StructType):
            shape = StructType([*shape.fields]).add(_MISFIT, StringType())
            options["columnNameOfCorruptRecord"] = _MISFIT
        return [sf.from_json(text, shape, options).alias(self._parsed)]

    def reason(self) -> Column:
        """Returns why it cannot be read, without its content; null if it can."""
        text = self._text()
        reasons: list[tuple[Column, str]] = []
        if self.format == "string":
            reasons.append((~sf.is_valid_utf8(text), f"{self.name} is not UTF-8"))
        elif self._is_json:
            wrong = ~sf.is_valid_utf8(text) | ~self._strict()
            reasons.append((wrong, NOT_JSON.format(self.name)))
        elif self.format == "json":
            reasons.append((~sf.is_valid_utf8(text), f"{self.name} is not JSON"))
        if self.type is not None:
            if (dateless := without_date(text, self.type)) is not None:
                reasons.append((dateless, f"{self.name} has a time without a date"))
            reasons.append((self._misfits(), f"{self.name} does not fit its schema"))
        if not reasons:
            return sf.lit(None).cast("string")
        found = sf.coalesce(*(sf.when(wrong, sf.lit(reason)) for wrong, reason in reasons))
        given = sf.col("__mark").isNull() & sf.col(self.raw).isNotNull()
        return sf.when(given, found)

    def _strict(self) -> Column:
        text = f"cast({self.raw} AS string)"
        return sf.expr(is_json(text, reading(text)))

    def _misfits(self) -> Column:
        parsed = sf.col(self._parsed)
        wrong = parsed.isNull()
        if isinstance(self.type, StructType):
            wrong = wrong | parsed.getField(_MISFIT).isNotNull()
        return wrong

    def column(self) -> Column:
        """Returns the column as the query sees it."""
        if self.format == "binary":
            return sf.col(self.raw).alias(self.name)
        if self.type is None:
            return self._text().alias(self.name)
        parsed = sf.col(self._parsed)
        if isinstance(self.type, StructType):
            fields = [parsed.getField(field).alias(field) for field in self.type.names]
            parsed = sf.when(sf.col(self.raw).isNotNull(), sf.struct(*fields))
        return parsed.alias(self.name)


def parts(transform: TransformSettings) -> tuple[RecordPart, RecordPart]:
    """Returns key and value. Raises Spark's exceptions for an invalid schema."""
    key, value = (
        RecordPart(
            name,
            transform.formats[name],
            None if schema is None else DataType.fromDDL(schema),
            checked=transform.rules is None,
        )
        for name, schema in transform.schemas.items()
    )
    return key, value


def prelude(rows: DataFrame, both: tuple[RecordPart, RecordPart], used: Set[str]) -> DataFrame:
    """Returns the columns for `rows` of the source worker. A key or value that is not in `used` is
    not read, and its visible column is null."""
    renamed = {CHUNK: "__chunk", MARK: "__mark", REASON: "__given"}
    raw = [sf.col(name).alias(renamed.get(name, f"__{name}")) for name in rows.columns]
    read = [part for part in both if part.name in used]
    rows = rows.select(*raw)
    for part in read:
        rows = rows.select("*", *part.parsed())
    rows = rows.select(
        "*", sf.coalesce(sf.col("__given"), *(part.reason() for part in read)).alias("__reason")
    )
    live = sf.col("__mark").isNull() & sf.col("__reason").isNull()
    rows = rows.select(
        "*", live.alias("__live"), (live & sf.col("__value").isNotNull()).alias("__whole")
    )
    columns: list[Column] = []
    by_name = {part.name: part for part in both}
    for name in (*VISIBLE, LACKING, SECRETS):
        if name in by_name:
            part = by_name[name]
            columns.append(part.column() if part in read else sf.lit(None).alias(name))
        elif f"__{name}" in rows.columns:
            columns.append(sf.col(f"__{name}").alias(name))
    return rows.select(*columns, *HIDDEN)
