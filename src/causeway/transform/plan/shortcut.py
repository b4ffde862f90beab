"""Makes a shortcut without Spark from Spark's analysed plan, if Causeway understands all of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isnan
from typing import Any

from causeway.transform.plan.catalyst import Node, conjuncts, each, id_of, name, type_of
from causeway.transform.plan.outputs import Projected
from causeway.transform.plan.prelude import RecordPart
from causeway.transform.plan.refusals import QueryFacts
from causeway.transform.queries import (
    DIGESTS,
    KEY,
    OFFSET,
    VALUE,
    Expression,
    Made,
    QueryShortcut,
    ReadAs,
    Scalar,
    constant,
    whole,
)
from causeway.transform.rows import SECRETS
from causeway.transform.session import SESSION

_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
# Texts of another collation have another name.
_TYPES = frozenset({"string", "int", "bigint", "boolean", "double"})
_CHAR = re.compile(r"[ !#-\[\]-~]")  # ASCII characters that JSON does not escape
_BITS = {"int": 32, "bigint": 64}
# Expressions that are functions of their children alone.
_OF_TEXTS = {"StartsWith": "starts with", "EndsWith": "ends with", "Contains": "contains"}
_COMPARISONS = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_FUNCTIONS: Mapping[str, str] = {
    **_OF_TEXTS,
    **_COMPARISONS,
    "And": "and",
    "Or": "or",
    "Not": "not",
    "Coalesce": "coalesce",
    "Concat": "concat",
}

# Spark's own settings that do not change the results of expressions.
_HARMLESS = (
    *("spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.adaptive."),
    *("spark.sql.shuffle.", "spark.sql.streaming.", "spark.sql.ui.", "spark.sql.artifact."),
)


class UnknownError(Exception):
    """The plan contains something that only Spark can evaluate."""


def _check(known: object) -> None:
    if not known:
        raise UnknownError


def shortcut_of_query(
    plan: Node,
    view: Node,
    facts: QueryFacts,
    both: tuple[RecordPart, RecordPart],
    found: Mapping[str, Projected],
    conf: Mapping[str, str],
) -> QueryShortcut | None:
    """Returns None if Causeway does not understand all of `plan`, or if the session's settings
    `conf` might change its meaning. `found`: the parts that it replaces."""
    if any(part.of_schema for part in both) or not all(map(_is_harmless, conf.items())):
        return None
    if not found.keys() <= {part.name for part in both}:
        return None
    reader = _PlanReader(view, facts, both)
    try:
        reader.plan(plan)
        key, value = (
            _form(at, part, reader, facts) for at, part in zip((KEY, VALUE), both, strict=True)
        )
        made = [reader.made(plan, found.get(part.name)) for part in both]
    except UnknownError:
        return None
    return QueryShortcut(tuple(reader.conditions), (key, value), (made[0], made[1]))


def _form(at: int, part: RecordPart, reader: _PlanReader, facts: QueryFacts) -> ReadAs:
    if part.name not in facts.used:
        return ReadAs("bytes")
    if part.type is not None:
        return ReadAs("document", _fields(part.type))
    _check(at not in reader.texts or at not in reader.documents)
    if part.format == "json" or at in reader.documents:
        return ReadAs("document")
    return ReadAs("text" if part.format == "string" else "bytes")


def _fields(schema: Any) -> tuple[tuple[str, str], ...]:
    """Names and types of the fields."""
    _check(schema.typeName() == "struct")
    fields = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
    names = [name.lower() for name, _ in fields]
    _check(len({*names}) == len(names) and all(kind in _TYPES for _, kind in fields))
    _check(all(field.nullable and _NAME.fullmatch(field.name) for field in schema.fields))
    return fields


def _is_harmless(setting: tuple[str, str]) -> bool:
    key, value = setting
    if key in SESSION:
        return value == SESSION[key]  # unless the user's function has changed it
    return not key.startswith("spark.sql.") or key.startswith(_HARMLESS)


class _PlanReader:
    """Reads a plan in which `refusals.examine` found no problems.

    `conditions`: the filters, and whether tombstones pass them unevaluated. `texts` and
    `documents`: which of KEY and VALUE is read as a text, and as a document."""

    def __init__(self, view: Node, facts: QueryFacts, both: tuple[RecordPart, RecordPart]) -> None:
        self.conditions: list[tuple[Expression, bool]] = []
        self.texts: set[int] = set()
        self.documents: set[int] = set()
        self._facts = facts
        self._parts = dict(zip((KEY, VALUE), both, strict=True))
        known: dict[str, Expression] = {
            "topic": Expression("topic"),
            "partition": Expression("partition"),
            "offset": whole(OFFSET),
            "key": whole(KEY),
            "value": whole(VALUE),
        }
        columns = {str(column.name()): id_of(column) for column in each(view.output())}
        self._view = set(columns.values())
        self._casts = 0
        self._secrets = columns.get(SECRETS)
        self._shared: dict[str, Expression] = {}  # of With; Spark rewrites BETWEEN to With
        self._columns = {columns[one]: expression for one, expression in known.items()}

    def plan(self, node: Node) -> None:
        """Raises UnknownError."""
        match name(node):
            case "Project":
                self.plan(node.child())
                for column in each(node.projectList()):
                    if name(column) == "Alias":
                        self._alias(id_of(column), column.child())
            case "Filter":
                self.plan(node.child())
                for condition in conjuncts(node.condition()):
                    alone = self._facts.of_record(condition)
                    self.conditions.append((self.expression(condition), alone))
            case "SubqueryAlias" | "View" | "PipeOperator":
                self.plan(node.child())
            case "LogicalRDD" | "LocalRelation" if {*map(id_of, each(node.output()))} == self._view:
                pass
            case _:  # a table of WITH may have the view's own columns
                raise UnknownError

    def made(self, plan: Node, projected: Projected | None) -> Made | None:
        """Returns the expression that replaces a part."""
        if projected is None:
            return None
        columns = (one for one in each(plan.output()) if str(one.name()).lower() == projected.name)
        column = next(columns)
        _check(type_of(column) == "string" or column.dataType().typeName() == "struct")
        found = self._column(column)
        _check(found.function != "whole")
        return found, projected.of_record

    def _alias(self, one: int, child: Node) -> None:
        if name(child) == "CreateNamedStruct":
            read = self._struct
        elif name(child) != "AttributeReference":
            read = self.expression
        else:
            if (found := self._columns.get(id_of(child))) is not None:
                self._columns[one] = found
            return
        casts = self._casts
        self._columns[one] = made = read(child)
        if self._casts > casts:  # a cast may fail in Spark even if the column is not used
            evaluated = Expression("evaluated", (made,))
            self.conditions.append((evaluated, self._facts.of_record(child)))

    def _column(self, attribute: Node) -> Expression:
        found = self._columns.get(id_of(attribute))
        if found is None:
            raise UnknownError
        return found

    def _struct(self, node: Node) -> Expression:
        children = list(each(node.children()))
        _check(children and all(name(one) == "Literal" for one in children[::2]))
        names = [str(_constant(one)) for one in children[::2]]
        _check(len({*names}) == len(names) and all(map(_NAME.fullmatch, names)))
        # Java writes doubles differently.
        _check(all(type_of(one) != "double" for one in children[1::2]))
        values = [self.expression(one) for one in children[1::2]]
        return Expression("struct", tuple(values), tuple(names))

    def _whole(self, node: Node) -> int:
        """Returns KEY or VALUE if the node is one of them, else -1."""
        if name(node) == "AttributeReference":
            found = self._column(node)
            if found.function == "whole" and found.options[0] in self._parts:
                return int(found.options[0])
        return -1

    def expression(self, node: Node) -> Expression:
        """Raises UnknownError."""
        _check(type_of(node) in _TYPES)
        kind, children = name(node), [*each(node.children())]
        if (function := _FUNCTIONS.get(kind)) is not None:
            types = {*map(type_of, children)}
            _check(kind not in _COMPARISONS or len(types) == 1)
            _check(kind not in _OF_TEXTS or types == {"string"})
            return Expression(function, tuple(map(self.expression, children)))
        known: Mapping[str, Callable[[Node], Expression]] = {
            "Literal": lambda node: constant(_constant(node)),
            "AttributeReference": self._attribute,
            "GetJsonObject": self._member,
            "GetStructField": self._field,
            "Mask": self._mask,
            "Sha2": self._digest,
            "With": self._with,
            "Between": lambda node: self.expression(children[0]),
            "CommonExpressionRef": lambda node: self._shared[str(node.id())],
            "Cast": self._cast,
            "IsNull": self._is_null,
            "IsNotNull": lambda node: Expression("not", (self._is_null(node),)),
            "In": self._in,
            "Like": self._like,
        }
        _check(kind in known)
        return known[kind](node)

    def _attribute(self, node: Node) -> Expression:
        if (at := self._whole(node)) >= 0:
            # The text of another format may be anything.
            _check(self._parts[at].format == "string" and self._parts[at].type is None)
            self.texts.add(at)
        return self._column(node)

    def _is_null(self, node: Node) -> Expression:
        child = node.child()
        at = self._whole(child)
        return Expression("is null", (whole(at) if at >= 0 else self.expression(child),))

    def _member(self, node: Node) -> Expression:
        source, path = each(node.children())
        at = self._whole(source)
        _check(at >= 0 and name(path) == "Literal")
        _check(self._parts[at].format in ("json", "string") and self._parts[at].type is None)
        text = _constant(path)
        if not isinstance(text, str) or not _PATH.fullmatch(text):
            raise UnknownError
        self.documents.add(at)
        return Expression("member", (), (at, *text.split(".")[1:]))

    def _field(self, node: Node) -> Expression:
        struct = node.child()
        if name(struct) == "AttributeReference" and id_of(struct) == self._secrets:
            # The name of the secret, not the name in the query, which may differ in case.
            field = str(struct.dataType().fieldNames()[node.ordinal()])
            return Expression("secret", (), (field,))
        at = self._whole(struct)
        _check(at >= 0)
        return Expression("field", (), (at, int(node.ordinal())))

    def _mask(self, node: Node) -> Expression:
        x, *others = map(self.expression, each(node.children()))
        chars = [one.options[0] for one in others if one.function == "constant"]
        if len(chars) < 4 or not all(
            char is None or (isinstance(char, str) and _CHAR.fullmatch(char)) for char in chars
        ):
            raise UnknownError
        return Expression("mask", (x,), tuple(chars))

    def _digest(self, node: Node) -> Expression:
        data, bits = each(node.children())
        _check(name(data) == "Cast" and type_of(data.child()) == "string")
        _check(name(bits) == "Literal")
        size = _constant(bits)
        _check(size in DIGESTS)
        return Expression("sha2", (self.expression(data.child()),), (size,))

    def _with(self, node: Node) -> Expression:
        whole, *shared = each(node.children())
        for one in shared:
            self._shared[str(one.id())] = self.expression(one.child())
        return self.expression(whole)

    def _cast(self, node: Node) -> Expression:
        before, after = type_of(node.child()), type_of(node)
        if before == "void":
            _check(name(node.child()) == "Literal")  # raise_error() is of that type, too
            return constant(None)
        if after == "double" and before.startswith("decimal") and name(node.child()) == "Literal":
            return constant(float(str(node.child().value())))
        if before == "string" and after in _BITS:
            self._casts += 1
            return Expression("whole number", (self.expression(node.child()),), (_BITS[after],))
        if after == "double" and before in _BITS:
            return Expression("double", (self.expression(node.child()),))
        _check(before == after or (before, after) == ("int", "bigint"))
        return self.expression(node.child())

    def _in(self, node: Node) -> Expression:
        x, *values = each(node.children())
        # The result of NULL in an empty list depends on settings.
        _check(values and all(type_of(one) == type_of(x) for one in values))
        found = [self.expression(one) for one in values]
        _check(all(one.function == "constant" for one in found))
        return Expression("in", (self.expression(x),), tuple(one.options[0] for one in found))

    def _like(self, node: Node) -> Expression:
        x, pattern = each(node.children())
        _check(name(pattern) == "Literal" and type_of(x) == type_of(pattern))
        text = _constant(pattern)
        if not isinstance(text, str) or "_" in text or str(node.escapeChar()) in text:
            raise UnknownError
        return Expression("like", (self.expression(x),), tuple(text.split("%")))


def _constant(node: Node) -> Scalar:
    _check(type_of(node) in _TYPES)
    value = node.value()
    # For Spark NaN equals itself and is the largest number.
    _check(not isinstance(value, float) or not isnan(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)  # Spark's own string class
