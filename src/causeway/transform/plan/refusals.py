"""Collects facts about a transform's analysed plan, and refuses plans that cannot be used.

A transform treats each row by itself, and its result for a record is the same each time the record
is sent: recovery relies on it. So a plan may have projections, filters and generators over the view
`records`, and only deterministic expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from causeway.transform.plan import clock
from causeway.transform.plan.catalyst import (
    Catalyst,
    Node,
    QueryPlace,
    conjuncts,
    each,
    id_of,
    name,
    place,
    references,
    type_of,
)
from causeway.transform.rows import SECRETS
from causeway.transform.udfs import cannot_guard

_ROW_BY_ROW = "a transform goes record by record: SELECT, WHERE and explode are what it may use"
_AGAIN = "a record must become the same whenever it is sent again"
_NODES = {
    "Aggregate": "an aggregate (GROUP BY, DISTINCT, count, sum, …)",
    "Distinct": "DISTINCT",
    "Deduplicate": "DISTINCT",
    "Join": "a join",
    "LateralJoin": "a lateral join",
    "AsOfJoin": "a join",
    "Sort": "ORDER BY",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Tail": "a limit",
    "Offset": "OFFSET",
    "Window": "a window function",
    "Union": "UNION",
    "UnionLoop": "a recursive query",
    "Intersect": "INTERSECT",
    "Except": "EXCEPT",
    "Sample": "TABLESAMPLE",
    "Repartition": "a repartition",
    "RepartitionByExpression": "a repartition",
    "Expand": "a query of several groupings",
    "Pivot": "PIVOT",
    "MapInPandas": "mapInPandas",
    "MapInArrow": "mapInArrow",
    "PythonMapInArrow": "mapInArrow",
}
_SUBQUERIES = {"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"}
_NOW = {
    "CurrentTimestamp",
    "CurrentDate",
    "CurrentTime",
    "Now",
    "LocalTimestamp",
    "CurrentUser",
    "CurrentDatabase",
    "CurrentCatalog",
    "CurrentPath",
}
_UDFS = {"PythonUDAF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF"}
_COLLECTIONS = {"Explode", "PosExplode", "Inline"}
# Functions that may take a secret in these arguments: the result does not reveal it.
_DIGESTS: Mapping[str, frozenset[int]] = {
    "Sha2": frozenset({0}),
    "Hmac": frozenset({0, 1}),
    "AesEncrypt": frozenset({1}),
}
# Functions that may prepare a secret for the functions above.
_PREPARE = {
    *("Alias", "Cast", "Concat", "ConcatWs", "GetStructField", "Encode", "Unhex", "UnBase64"),
    "ToBinary",
}
_ONLY_DIGESTS = (
    "only sha2, hmac and aes_encrypt (as its key) may use secrets, which concat, encode, unhex, "
    "unbase64, to_binary and casts to STRING or BINARY may prepare"
)
_EXPLODES = "use explode, posexplode or inline (also with _outer), or json_tuple"


class PlanProblem(NamedTuple):
    place: QueryPlace
    text: str

    def __str__(self) -> str:
        return f"{self.place}{self.text}"


@dataclass(slots=True)
class QueryFacts:
    """The facts about a plan. Columns are identified by their ids in Catalyst."""

    from_value: set[int]  # `value`, and columns made from it
    same_as: dict[int, str]  # unchanged columns: the view's column
    problems: list[PlanProblem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # columns of the view that an expression reads
    names_null: bool = False  # has `value IS NULL` or IS NOT NULL: it treats tombstones itself
    secret: set[int] = field(default_factory=set)  # columns that pass on a secret
    called: dict[str, str] = field(default_factory=dict)  # other names of the view's columns
    takes_times: bool = False  # makes timestamps from texts, see clock.py
    # Columns of the view that from_json reads, each with the DataType, as JSON.
    read_as: list[tuple[str, str]] = field(default_factory=list)
    calls_python: bool = False  # has user-defined functions in Python
    multiplies: bool = False  # may make several records of one

    def reads_value(self, expression: Node) -> bool:
        return not self.from_value.isdisjoint(references(expression))

    def of_record(self, expression: Node) -> bool:
        """Returns whether it is not evaluated for tombstones."""
        return not self.names_null and self.reads_value(expression)


def examine(
    plan: Node, view: Node, catalyst: Catalyst, parse: Any, *, by_rules: bool
) -> QueryFacts:
    """Returns the facts of `plan`. `view`: the plan of `records`. `parse`: Spark's parser of
    expressions. `by_rules`: Causeway made the query; it treats tombstones itself and gives secrets
    to Causeway's functions only."""
    columns = {id_of(column): str(column.name()) for column in each(view.output())}
    value = {one for one, name_ in columns.items() if name_ == "value"}
    facts = QueryFacts(from_value=value, same_as=dict(columns), names_null=by_rules)
    facts.secret |= {one for one, name_ in columns.items() if name_ == SECRETS}
    examiner = _Examiner(facts, set(columns), by_rules=by_rules)
    examiner.plan(plan)
    if not by_rules:
        examiner.times(plan, catalyst, parse)
    return facts


class _Examiner:
    def __init__(self, facts: QueryFacts, view: set[int], *, by_rules: bool) -> None:
        self._facts = facts
        self._by_rules = by_rules
        self._view = view
        self._tables: dict[int, Node] = {}  # of WITH, by Spark's number
        self._within: Node | None = None  # the expression that is examined

    def plan(self, node: Node) -> None:
        match kind := name(node):
            case "Project":
                self.plan(node.child())
                for column in each(node.projectList()):
                    self._column(column)
            case "Filter":
                self.plan(node.child())
                for condition in conjuncts(node.condition()):
                    self._expression(condition)
            case "Generate":
                self.plan(node.child())
                self._generate(node)
            case "SubqueryAlias" | "View" | "PipeOperator":
                self.plan(node.child())
            case "WithCTE":
                self._tables |= {int(one.id()): one.child() for one in each(node.cteDefs())}
                self.plan(node.plan())
            case "CTERelationRef" if int(node.cteId()) in self._tables:
                self._table(node)
            case _ if {id_of(column) for column in each(node.output())} == self._view and (
                node.children().isEmpty()
            ):
                pass
            case _:
                self._refused(kind, node)

    def times(self, plan: Node, catalyst: Catalyst, parse: Any) -> None:
        for one in clock.expressions(plan, catalyst):
            if (problem := clock.problem(one, parse)) is not None:
                self._problem(one, problem)
            self._facts.takes_times |= clock.takes_times(one)

    def _table(self, node: Node) -> None:
        table = self._tables[int(node.cteId())]
        self.plan(table)
        for there, here in zip(each(table.output()), each(node.output()), strict=True):
            self._same(id_of(there), id_of(here))

    def _same(self, there: int, here: int) -> None:
        facts = self._facts
        if there in facts.same_as:
            facts.same_as[here] = facts.same_as[there]
        if there in facts.from_value:
            facts.from_value.add(here)
        if there in facts.secret:
            facts.secret.add(here)

    def _refused(self, kind: str, node: Node) -> None:
        if what := _NODES.get(kind):
            self._problem(node, f"{what} cannot be used ({_ROW_BY_ROW})")
        elif node.children().isEmpty():
            self._problem(node, "it reads another table than the view `records`")
        else:
            self._problem(node, f"{kind} cannot be used ({_ROW_BY_ROW})")
        if kind == "GlobalLimit":
            node = node.child()
        if node.children().size() == 1:
            self.plan(node.children().apply(0))

    def _problem(self, node: Node, text: str) -> None:
        problem = PlanProblem(place(node) or place(self._within or node), text)
        if problem not in self._facts.problems:
            self._facts.problems.append(problem)

    def _column(self, column: Node) -> None:
        if name(column) != "Alias":
            return  # unchanged from the child
        facts, child, here = self._facts, column.child(), id_of(column)
        if name(child) == "AttributeReference":
            self._same(id_of(child), here)
            if (one := facts.same_as.get(here)) is not None:
                facts.called[str(column.name()).lower()] = one
            return
        if self._expression(child):
            facts.secret.add(here)
        if facts.reads_value(child):
            facts.from_value.add(here)

    def _carries(self, expression: Node) -> bool:
        """Returns whether it passes on a secret. A function that must not take a secret is a
        problem."""
        if name(expression) == "AttributeReference":
            return id_of(expression) in self._facts.secret
        kind, children = name(expression), list(each(expression.children()))
        secret = {at for at, child in enumerate(children) if self._carries(child)}
        if not secret or secret <= _DIGESTS.get(kind, frozenset()):
            return False
        if kind in _PREPARE and type_of(expression) in ("string", "binary"):
            return True
        what = f"`{expression.prettyName()}` might show a secret"
        self._problem(expression, f"{what} ({_ONLY_DIGESTS})")
        return False

    def _generate(self, node: Node) -> None:
        generator, facts = node.generator(), self._facts
        self._expression(generator)
        facts.multiplies = True
        if name(generator) not in _COLLECTIONS | {"JsonTuple"}:
            function = generator.prettyName()
            self._problem(generator, f"{function}() cannot be used as a generator ({_EXPLODES})")
        for column in each(node.generatorOutput()):
            if facts.reads_value(generator):
                facts.from_value.add(id_of(column))

    def _expression(self, expression: Node) -> bool:
        """Examines a whole expression. Returns whether it passes on a secret."""
        facts = self._facts
        facts.used |= {facts.same_as[one] for one in references(expression) if one in facts.same_as}
        before = len(facts.problems)
        self._within = expression
        self._parts(expression)
        carries = not self._by_rules and self._carries(expression)
        if len(facts.problems) == before and not expression.deterministic():
            culprit = _least(expression)
            what = f"{culprit.prettyName()}() gives another result each time"
            self._problem(culprit, f"{what}, and {_AGAIN}")
        self._within = None
        return carries

    def _parts(self, expression: Node) -> None:
        kind = name(expression)
        children = list(each(expression.children()))
        if kind in _SUBQUERIES:
            self._problem(expression, f"a subquery cannot be used ({_ROW_BY_ROW})")
        elif kind in _NOW:
            what = f"{expression.prettyName()}() depends on the time and the user"
            self._problem(expression, f"{what}, and {_AGAIN}")
        elif kind in _UDFS:
            self._problem(
                expression,
                "a user-defined function that is not in Python cannot be used, as Spark would also "
                "call it for rows that are no records (use functions of Spark SQL)",
            )
        elif kind == "PythonUDF":
            self._facts.calls_python = True
            if problem := cannot_guard(expression):
                self._problem(expression, problem)
        elif kind == "AesEncrypt":
            self._aes(expression)
        elif kind in ("IsNull", "IsNotNull", "AtLeastNNonNulls"):
            self._facts.names_null |= any(self._as_it_is(child) == "value" for child in children)
        elif kind == "JsonToStructs" and (part := self._as_it_is(expression.child())) is not None:
            self._facts.read_as.append((part, str(expression.schema().json())))
        for child in children:
            self._parts(child)

    def _as_it_is(self, expression: Node) -> str | None:
        """Returns the column of the view that it is, apart from its type."""
        while name(expression) == "Cast":
            expression = expression.child()
        if name(expression) != "AttributeReference":
            return None
        return self._facts.same_as.get(id_of(expression))

    def _aes(self, expression: Node) -> None:
        """Without an IV Spark draws a random one, but reports the result as deterministic."""
        mode, iv = expression.mode(), expression.iv()
        if mode.foldable() and str(mode.eval(None)).upper() == "ECB":
            return
        if iv.foldable():
            what = "always the same IV" if iv.eval(None) else "no IV, so it draws a random one"
            self._problem(
                expression,
                f"aes_encrypt has {what} (derive one that differs from record to record, of topic, "
                "partition and offset, or use the rule `encrypt`, which does it)",
            )


def _least(expression: Node) -> Node:
    """Returns the innermost part that is not deterministic."""
    for child in each(expression.children()):
        if not child.deterministic():
            return _least(child)
    return expression
