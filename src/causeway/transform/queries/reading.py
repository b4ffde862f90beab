"""What can be done without Spark, out of its analysed plan, where all of that is understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, cast

from causeway.transform.catalyst import Node, conjuncts, each, id_of, name
from causeway.transform.formats import Part
from causeway.transform.queries import expressions as ex
from causeway.transform.queries.expressions import KEY, OFFSET, VALUE, Expression
from causeway.transform.queries.shortcut import Form, QueryShortcut
from causeway.transform.refusals import Facts
from causeway.transform.session import SESSION

_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
# Texts of another collation have another name.
_TYPES = frozenset({"string", "int", "bigint", "boolean"})
_BITS = {"int": 32, "bigint": 64}
_SIGNS: Mapping[str, Literal["=", "<", "<=", ">", ">=", "<=>"]] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}

# Of Spark's own settings those that change nothing of what an expression gives.
_HARMLESS = (
    *("spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.adaptive."),
    *("spark.sql.shuffle.", "spark.sql.streaming.", "spark.sql.ui.", "spark.sql.artifact."),
)


class UnknownError(Exception):
    """Something in the plan that only Spark can carry out."""


def shortcut_of_query(
    plan: Node, view: Node, facts: Facts, both: tuple[Part, Part], conf: Mapping[str, str]
) -> QueryShortcut | None:
    """None where not all of `plan`, which replaces nothing, is understood, or where the session's
    settings `conf` might change what it means."""
    if any(part.of_schema for part in both) or not all(map(_is_harmless, conf)):
        return None
    reader = _Reader(view, facts, both)
    try:
        reader.plan(plan)
        key, value = (
            _form(at, part, reader, facts) for at, part in zip((KEY, VALUE), both, strict=True)
        )
    except UnknownError:
        return None
    return QueryShortcut(tuple(reader.conditions), (key, value))


def _form(at: int, part: Part, reader: _Reader, facts: Facts) -> Form:
    if part.name not in facts.used:
        return "bytes"
    if part.type is not None or (at in reader.texts and at in reader.documents):
        raise UnknownError
    if part.format == "json" or at in reader.documents:
        return "document"
    return "text" if part.format == "string" else "bytes"


def _is_harmless(key: str) -> bool:
    return not key.startswith("spark.sql.") or key in SESSION or key.startswith(_HARMLESS)


class _Reader:
    """Of a plan that `refusals.examine` found nothing against.

    `conditions`: what lets a record stay, and whether tombstones pass it unasked; `texts` and
    `documents`: which of KEY and VALUE is read as one.
    """

    def __init__(self, view: Node, facts: Facts, both: tuple[Part, Part]) -> None:
        self.conditions: list[tuple[Expression, bool]] = []
        self.texts: set[int] = set()
        self.documents: set[int] = set()
        self._facts = facts
        self._parts = dict(zip((KEY, VALUE), both, strict=True))
        known: dict[str, Expression] = {
            "topic": ex.Topic(),
            "partition": ex.Partition(),
            "offset": ex.Whole(OFFSET),
            "key": ex.Whole(KEY),
            "value": ex.Whole(VALUE),
        }
        columns = {str(column.name()): id_of(column) for column in each(view.output())}
        self._view = set(columns.values())
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
            case _ if {id_of(column) for column in each(node.output())} != self._view:
                raise UnknownError

    def _alias(self, one: int, child: Node) -> None:
        if name(child) != "AttributeReference":
            self._columns[one] = self.expression(child)
        elif (found := self._columns.get(id_of(child))) is not None:
            self._columns[one] = found

    def _column(self, attribute: Node) -> Expression:
        found = self._columns.get(id_of(attribute))
        if found is None:
            raise UnknownError
        return found

    def _whole(self, node: Node) -> int:
        """KEY or VALUE, if that is what it is."""
        if name(node) == "AttributeReference":
            found = self._column(node)
            if isinstance(found, ex.Whole) and found.at in self._parts:
                return found.at
        return -1

    def expression(self, node: Node) -> Expression:
        """Raises UnknownError."""
        if _type(node) not in _TYPES:
            raise UnknownError
        kind = name(node)
        if (sign := _SIGNS.get(kind)) is not None:
            if _type(node.left()) != _type(node.right()):
                raise UnknownError
            return ex.Compared(sign, self.expression(node.left()), self.expression(node.right()))
        known: Mapping[str, Callable[[Node], Expression]] = {
            "Literal": lambda node: ex.Constant(_constant(node)),
            "AttributeReference": self._attribute,
            "GetJsonObject": self._member,
            "Cast": self._cast,
            "And": lambda node: ex.Both(*self._pair(node)),
            "Or": lambda node: ex.Either(*self._pair(node)),
            "Not": lambda node: ex.Not(self.expression(node.child())),
            "IsNull": self._is_null,
            "IsNotNull": lambda node: ex.Not(self._is_null(node)),
            "In": self._in,
            "Like": self._like,
            "Coalesce": lambda node: ex.First(self._all(node)),
            **dict.fromkeys(("StartsWith", "EndsWith", "Contains"), self._holds),
        }
        if (read := known.get(kind)) is None:
            raise UnknownError
        return read(node)

    def _pair(self, node: Node) -> tuple[Expression, Expression]:
        return self.expression(node.left()), self.expression(node.right())

    def _all(self, node: Node) -> tuple[Expression, ...]:
        return tuple(self.expression(child) for child in each(node.children()))

    def _attribute(self, node: Node) -> Expression:
        if (at := self._whole(node)) >= 0:
            if self._parts[at].format != "string" or self._parts[at].type is not None:
                raise UnknownError  # as a text it may be anything
            self.texts.add(at)
        return self._column(node)

    def _is_null(self, node: Node) -> Expression:
        child = node.child()
        at = self._whole(child)
        return ex.IsNull(ex.Whole(at) if at >= 0 else self.expression(child))

    def _member(self, node: Node) -> Expression:
        source, path = each(node.children())
        at = self._whole(source)
        if at < 0 or self._parts[at].format not in ("json", "string") or name(path) != "Literal":
            raise UnknownError
        text = _constant(path)
        if self._parts[at].type is not None or not isinstance(text, str):
            raise UnknownError
        if not _PATH.fullmatch(text):
            raise UnknownError
        self.documents.add(at)
        return ex.Member(at, tuple(text.split(".")[1:]))

    def _cast(self, node: Node) -> Expression:
        before, after = _type(node.child()), _type(node)
        if before == "void":
            return ex.Constant(None)
        x = self.expression(node.child())
        if before == "string" and after in _BITS:
            return ex.Number(x, _BITS[after])
        if before != after and (before, after) != ("int", "bigint"):
            raise UnknownError
        return x

    def _in(self, node: Node) -> Expression:
        x, *values = each(node.children())
        if any(_type(one) != _type(x) for one in values):
            raise UnknownError
        found = [self.expression(one) for one in values]
        constants = tuple(one.value for one in found if isinstance(one, ex.Constant))
        if len(constants) < len(found):
            raise UnknownError
        return ex.OneOf(self.expression(x), constants)

    def _like(self, node: Node) -> Expression:
        x, pattern = each(node.children())
        if name(pattern) != "Literal" or _type(x) != _type(pattern):
            raise UnknownError
        text = _constant(pattern)
        if not isinstance(text, str) or "_" in text or str(node.escapeChar()) in text:
            raise UnknownError
        return ex.Like(self.expression(x), tuple(text.split("%")))

    def _holds(self, node: Node) -> Expression:
        how = cast(Literal["StartsWith", "EndsWith", "Contains"], name(node))
        if _type(node.left()) != "string" or _type(node.right()) != "string":
            raise UnknownError
        return ex.Holds(how, *self._pair(node))


def _type(node: Node) -> str:
    return str(node.dataType().simpleString())


def _constant(node: Node) -> ex.Found:
    if _type(node) not in _TYPES:
        raise UnknownError
    value = node.value()
    if value is None or isinstance(value, bool | int):
        return value
    return str(value)  # of Spark's own kind
