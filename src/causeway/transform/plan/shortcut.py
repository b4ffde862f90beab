"""Makes a shortcut without Spark from Spark's analysed plan, if all of the plan is understood."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import isnan
from typing import Any

from causeway.transform import queries as ex
from causeway.transform.plan.catalyst import Node, conjuncts, each, id_of, name, type_of
from causeway.transform.plan.outputs import Projected
from causeway.transform.plan.prelude import RecordPart
from causeway.transform.plan.refusals import QueryFacts
from causeway.transform.queries import KEY, OFFSET, VALUE, Expression, Made, QueryShortcut, ReadAs
from causeway.transform.rows import SECRETS
from causeway.transform.session import SESSION

_PATH = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
# Texts of another collation have another name.
_TYPES = frozenset({"string", "int", "bigint", "boolean", "double"})
_CHAR = re.compile(r"[ !#-\[\]-~]")  # ASCII characters that JSON does not escape
_BITS = {"int": 32, "bigint": 64}
_COMPARISONS: Mapping[str, str] = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}

# Spark's own settings that do not change the results of expressions.
_HARMLESS = (
    *("spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.adaptive."),
    *("spark.sql.shuffle.", "spark.sql.streaming.", "spark.sql.ui.", "spark.sql.artifact."),
)


class UnknownError(Exception):
    """The plan contains something that only Spark can evaluate."""


def shortcut_of_query(
    plan: Node,
    view: Node,
    facts: QueryFacts,
    both: tuple[RecordPart, RecordPart],
    found: Mapping[str, Projected],
    conf: Mapping[str, str],
) -> QueryShortcut | None:
    """None if not all of `plan` is understood, or if the session's settings `conf` might change its
    meaning. `found`: the parts that it replaces."""
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
    if at in reader.texts and at in reader.documents:
        raise UnknownError
    if part.format == "json" or at in reader.documents:
        return ReadAs("document")
    return ReadAs("text" if part.format == "string" else "bytes")


def _fields(schema: Any) -> tuple[tuple[str, str], ...]:
    """Names and types of the fields."""
    if schema.typeName() != "struct":
        raise UnknownError
    fields = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
    names = [name.lower() for name, _ in fields]
    if len({*names}) < len(names) or not all(kind in _TYPES for _, kind in fields):
        raise UnknownError
    if not all(field.nullable and _NAME.fullmatch(field.name) for field in schema.fields):
        raise UnknownError
    return fields


def _is_harmless(setting: tuple[str, str]) -> bool:
    key, value = setting
    if key in SESSION:
        return value == SESSION[key]  # unless the user's function has changed it
    return not key.startswith("spark.sql.") or key.startswith(_HARMLESS)


class _PlanReader:
    """Reads a plan in which `refusals.examine` found no problems.

    `conditions`: the filters, and whether tombstones pass them unevaluated; `texts` and
    `documents`: which of KEY and VALUE is read as one."""

    def __init__(self, view: Node, facts: QueryFacts, both: tuple[RecordPart, RecordPart]) -> None:
        self.conditions: list[tuple[Expression, bool]] = []
        self.texts: set[int] = set()
        self.documents: set[int] = set()
        self._facts = facts
        self._parts = dict(zip((KEY, VALUE), both, strict=True))
        known: dict[str, Expression] = {
            "topic": ex.TopicColumn(),
            "partition": ex.PartitionColumn(),
            "offset": ex.Whole(OFFSET),
            "key": ex.Whole(KEY),
            "value": ex.Whole(VALUE),
        }
        columns = {str(column.name()): id_of(column) for column in each(view.output())}
        self._view = set(columns.values())
        self._casts = 0
        self._secrets = columns.get(SECRETS)
        self._shared: dict[str, Expression] = {}  # of With, to which Spark rewrites BETWEEN
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
        """The expression that replaces a part."""
        if projected is None:
            return None
        columns = (one for one in each(plan.output()) if str(one.name()).lower() == projected.name)
        column = next(columns)
        if type_of(column) != "string" and column.dataType().typeName() != "struct":
            raise UnknownError
        found = self._column(column)
        if isinstance(found, ex.Whole):
            raise UnknownError
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
            self.conditions.append((ex.Evaluated(made), self._facts.of_record(child)))

    def _column(self, attribute: Node) -> Expression:
        found = self._columns.get(id_of(attribute))
        if found is None:
            raise UnknownError
        return found

    def _struct(self, node: Node) -> Expression:
        children = list(each(node.children()))
        if not children or any(name(one) != "Literal" for one in children[::2]):
            raise UnknownError
        names = [str(_constant(one)) for one in children[::2]]
        if len({*names}) < len(names) or not all(map(_NAME.fullmatch, names)):
            raise UnknownError
        if any(type_of(one) == "double" for one in children[1::2]):
            raise UnknownError  # Java writes doubles in another way
        values = [self.expression(one) for one in children[1::2]]
        return ex.JsonStruct(tuple(zip(names, values, strict=True)))

    def _whole(self, node: Node) -> int:
        """KEY or VALUE if the node is one of them, else -1."""
        if name(node) == "AttributeReference":
            found = self._column(node)
            if isinstance(found, ex.Whole) and found.at in self._parts:
                return found.at
        return -1

    def expression(self, node: Node) -> Expression:
        """Raises UnknownError."""
        if type_of(node) not in _TYPES:
            raise UnknownError
        kind = name(node)
        if (sign := _COMPARISONS.get(kind)) is not None:
            return ex.Applied(sign, self._compared(node))
        known: Mapping[str, Callable[[Node], Expression]] = {
            "Literal": lambda node: ex.Constant(_constant(node)),
            "AttributeReference": self._attribute,
            "GetJsonObject": self._member,
            "GetStructField": self._field,
            "Concat": lambda node: ex.Applied("concat", self._all(node)),
            "Mask": self._mask,
            "Sha2": self._digest,
            "With": self._with,
            "Between": lambda node: self.expression(node.children().apply(0)),
            "CommonExpressionRef": lambda node: self._shared[str(node.id())],
            "Cast": self._cast,
            "EqualNullSafe": lambda node: ex.Same(*self._compared(node)),
            "And": lambda node: ex.Junction(*self._pair(node), decisive=False),
            "Or": lambda node: ex.Junction(*self._pair(node), decisive=True),
            "Not": lambda node: ex.Applied("not", (self.expression(node.child()),)),
            "IsNull": self._is_null,
            "IsNotNull": lambda node: ex.Applied("not", (self._is_null(node),)),
            "In": self._in,
            "Like": self._like,
            "Coalesce": lambda node: ex.Coalesce(self._all(node)),
            "StartsWith": lambda node: self._of_texts("starts with", node),
            "EndsWith": lambda node: self._of_texts("ends with", node),
            "Contains": lambda node: self._of_texts("contains", node),
        }
        if (read := known.get(kind)) is None:
            raise UnknownError
        return read(node)

    def _compared(self, node: Node) -> tuple[Expression, Expression]:
        if type_of(node.left()) != type_of(node.right()):
            raise UnknownError
        return self._pair(node)

    def _pair(self, node: Node) -> tuple[Expression, Expression]:
        return self.expression(node.left()), self.expression(node.right())

    def _all(self, node: Node) -> tuple[Expression, ...]:
        return tuple(self.expression(child) for child in each(node.children()))

    def _attribute(self, node: Node) -> Expression:
        if (at := self._whole(node)) >= 0:
            if self._parts[at].format != "string" or self._parts[at].type is not None:
                raise UnknownError  # the text of another format may be anything
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

    def _field(self, node: Node) -> Expression:
        struct = node.child()
        if name(struct) == "AttributeReference" and id_of(struct) == self._secrets:
            # The name of the secret, not the name in the query, which may differ in case.
            return ex.SecretField(str(struct.dataType().fieldNames()[node.ordinal()]))
        at = self._whole(struct)
        if at < 0:
            raise UnknownError
        return ex.SchemaField(at, int(node.ordinal()))

    def _mask(self, node: Node) -> Expression:
        x, *others = self._all(node)
        chars = [one.value for one in others if isinstance(one, ex.Constant)]
        if len(chars) < 4:
            raise UnknownError
        known = (
            char is None or (isinstance(char, str) and _CHAR.fullmatch(char)) for char in chars
        )
        if len(chars) < 4 or not all(known):
            raise UnknownError
        upper, lower, digit, other = (None if char is None else str(char) for char in chars)
        return ex.Applied("mask", (x,), (upper, lower, digit, other))

    def _digest(self, node: Node) -> Expression:
        data, bits = each(node.children())
        if name(data) != "Cast" or type_of(data.child()) != "string" or name(bits) != "Literal":
            raise UnknownError
        size = _constant(bits)
        if not isinstance(size, int) or size not in ex.DIGESTS:
            raise UnknownError
        return ex.Applied("sha2", (self.expression(data.child()),), (size,))

    def _with(self, node: Node) -> Expression:
        whole, *shared = each(node.children())
        for one in shared:
            self._shared[str(one.id())] = self.expression(one.child())
        return self.expression(whole)

    def _cast(self, node: Node) -> Expression:
        before, after = type_of(node.child()), type_of(node)
        if before == "void":
            if name(node.child()) != "Literal":
                raise UnknownError  # raise_error() is of that type, too
            return ex.Constant(None)
        if after == "double" and before.startswith("decimal") and name(node.child()) == "Literal":
            return ex.Constant(float(str(node.child().value())))
        if before == "string" and after in _BITS:
            self._casts += 1
            return ex.Applied("whole number", (self.expression(node.child()),), (_BITS[after],))
        if after == "double" and before in _BITS:
            return ex.Applied("double", (self.expression(node.child()),))
        if before != after and (before, after) != ("int", "bigint"):
            raise UnknownError
        return self.expression(node.child())

    def _in(self, node: Node) -> Expression:
        x, *values = each(node.children())
        # The result of NULL in an empty list depends on settings.
        if not values or any(type_of(one) != type_of(x) for one in values):
            raise UnknownError
        found = [self.expression(one) for one in values]
        constants = tuple(one.value for one in found if isinstance(one, ex.Constant))
        if len(constants) < len(found):
            raise UnknownError
        return ex.OneOf(self.expression(x), constants)

    def _like(self, node: Node) -> Expression:
        x, pattern = each(node.children())
        if name(pattern) != "Literal" or type_of(x) != type_of(pattern):
            raise UnknownError
        text = _constant(pattern)
        if not isinstance(text, str) or "_" in text or str(node.escapeChar()) in text:
            raise UnknownError
        return ex.Applied("like", (self.expression(x),), tuple(text.split("%")))

    def _of_texts(self, function: str, node: Node) -> Expression:
        if type_of(node.left()) != "string" or type_of(node.right()) != "string":
            raise UnknownError
        return ex.Applied(function, self._pair(node))


def _constant(node: Node) -> ex.Scalar:
    if type_of(node) not in _TYPES:
        raise UnknownError
    value = node.value()
    if isinstance(value, float) and isnan(value):
        raise UnknownError  # for Spark NaN equals itself and is the largest number
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)  # Spark's own string class
