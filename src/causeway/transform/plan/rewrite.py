"""Rewrites a user's plan: hidden columns pass through it, and it does not touch markers, refused
records and tombstones.

    Project(a, f(b) AS c)   becomes  Project(a, IF(live, f(b), NULL) AS c, hidden columns)
    Filter(x AND y(value))  becomes  Filter(IF(live, x AND IF(whole, y(value), true), true))
    explode(array)          becomes  explode_outer(IF(live, array, NULL)) after a filter that drops
                                     live rows for which explode makes no rows

`live`: a record that is not refused. `whole`: a live record with a value, that is, no tombstone.
Expressions that read `value` are not evaluated for tombstones, unless the query itself has `value
IS NULL` or IS NOT NULL.

An exception would end the job, and Spark would show its message, which may quote the record, in its
log, its pages and its event log. So each step is tried first, and a record on which it throws is
refused from there on:

    Project(a, __tried.0 AS c, …, __live AND __tried IS NOT NULL AS __live)
    └ Project(*, try(struct(IF(live, f(b), NULL))) AS __tried)

Expressions that cannot throw (`catalyst.never_throws`) are not tried: a try costs as much as many
functions."""

from __future__ import annotations

from collections.abc import Sequence

from causeway.transform.json_text import MOST_DIGITS
from causeway.transform.plan.catalyst import (
    Catalyst,
    Node,
    conjuncts,
    each,
    id_of,
    name,
    never_throws,
    type_of,
)
from causeway.transform.plan.clock import NO_DATE, takes_times
from causeway.transform.plan.prelude import HIDDEN
from causeway.transform.plan.refusals import QueryFacts
from causeway.transform.udfs import guarded

THROWS = "the transform fails on it"
_TRIED = "__tried"
_TOO_LONG = f"^.{{{MOST_DIGITS + 1}}}"  # of a text that becomes a number


class Rewriter:
    """Rewrites one plan in which `refusals.examine` found no problems."""

    def __init__(
        self,
        catalyst: Catalyst,
        facts: QueryFacts,
        records: Node,
        hidden: list[Node],
        *,
        throws: bool = False,
    ) -> None:
        """`records`: the plan in place of the view. It has the view's columns by their ids and then
        the `hidden` ones, among them `__live` and `__whole`. `throws`: no step is tried first."""
        self._to, self._make = catalyst, catalyst.expressions
        self._facts = facts
        self._records = records
        self._hidden = hidden
        self._throws = throws
        self._tables: dict[int, Node] = {}

    def rewrite(self, node: Node) -> Node:
        return self._rewrite(self._to.replaced(node) if self._facts.takes_times else node)

    def _rewrite(self, node: Node) -> Node:
        match name(node):
            case "Project":
                return self._project(node)
            case "Filter":
                return self._filter(node)
            case "Generate":
                return self._generate(node)
            case "SubqueryAlias" | "View" | "PipeOperator":
                return self._rewrite(node.child())
            case "WithCTE":
                self._tables |= {int(one.id()): one.child() for one in each(node.cteDefs())}
                return self._rewrite(node.plan())
            case "CTERelationRef":
                return self._table(node)
            case _:
                return self._records

    def _attribute(self, wanted: str) -> Node:
        """Returns a hidden column in its present form, after the steps so far."""
        return next(column for column in self._hidden if str(column.name()) == wanted)

    @property
    def _live(self) -> Node:
        return self._attribute("__live")

    def _try(self, expressions: Sequence[Node], child: Node) -> tuple[Node, Node]:
        """Returns `child` with one more column, the values of `expressions`; and that column."""
        found = self._to.struct(expressions)
        tried = self._to.named(found if self._throws else self._make.TryEval(found), _TRIED)
        return self._to.project([*each(child.output()), tried], child), tried.toAttribute()

    def _judged(self, tried: Node) -> list[Node]:
        """Returns the hidden columns after `tried`, which may have thrown. They replace the former
        ones."""
        worked = self._make.IsNotNull(tried)
        columns = []
        for column in self._hidden:
            match str(column.name()):
                case "__live" | "__whole" as shown:
                    judged = self._to.named(self._to.all_of([column, worked]), shown)
                case "__reason":
                    why = self._make.If(worked, column, self._to.text(THROWS))
                    judged = self._to.named(why, "__reason")
                case _:
                    judged = column
            columns.append(judged)
        self._hidden = [
            column.toAttribute() if name(column) == "Alias" else column for column in columns
        ]
        return columns

    def _project(self, node: Node) -> Node:
        child = self._rewrite(node.child())
        columns = list(each(node.projectList()))
        made = [
            column
            for column in columns
            if name(column) == "Alias" and name(column.child()) != "AttributeReference"
        ]
        safe = {id_of(column): column for column in made if never_throws(column.child())}
        made = [column for column in made if id_of(column) not in safe]
        columns = [
            self._to.with_children(column, [self._guarded(column)])
            if id_of(column) in safe
            else column
            for column in columns
        ]
        if not made:
            return self._to.project([*columns, *self._hidden], child)
        child, tried = self._try([self._guarded(column) for column in made], child)
        fields = {
            id_of(column): self._to.with_children(column, [self._to.field(tried, at)])
            for at, column in enumerate(made)
        }
        kept = [fields.get(id_of(column), column) for column in columns]
        return self._to.project([*kept, *self._judged(tried)], child)

    def _filter(self, node: Node) -> Node:
        child = self._rewrite(node.child())
        before = [one for one in each(child.output()) if str(one.name()) not in HIDDEN]
        child, tried = self._try([self._passing(node)], child)
        threw = self._make.IsNull(tried)
        child = self._to.logical.Filter(self._make.Or(threw, self._to.field(tried, 0)), child)
        return self._to.project([*before, *self._judged(tried)], child)

    def _table(self, node: Node) -> Node:
        table = self._tables[int(node.cteId())]
        child = self._rewrite(table)
        columns = [
            here if id_of(here) == id_of(there) else self._to.alias(there, here)
            for there, here in zip(each(table.output()), each(node.output()), strict=True)
        ]
        return self._to.project([*columns, *self._hidden], child)

    def _bounded(self, expression: Node) -> Node:
        """Returns the expression without casts of too long texts to DECIMAL: Java would need half a
        minute for a text of 900 kB."""
        before = list(each(expression.children()))
        children = [self._bounded(child) for child in before]
        if any(new is not old for new, old in zip(children, before, strict=True)):
            expression = self._to.with_children(expression, children)
        if name(expression) != "Cast" or not type_of(expression).startswith("decimal"):
            return expression
        if type_of(expression.child()) != "string":
            return expression
        text = self._to.without(expression.child(), _TOO_LONG)
        return self._to.with_children(expression, [text])

    def _asked(self, expression: Node, condition: Node) -> Node:
        """Returns the expression with times only from texts with a date, and with user-defined
        functions called only if `condition` holds. Otherwise Spark calls them for each row, even in
        a branch that is not taken, and with values that `condition` excludes."""
        looked_at = self._facts.calls_python or self._facts.takes_times
        before = list(each(expression.children())) if looked_at else []
        children = [self._asked(child, condition) for child in before]
        if self._facts.takes_times and takes_times(expression):
            children = [self._to.without(children[0], NO_DATE)]
        if name(expression) == "PythonUDF":
            given = [self._argument(child, condition) for child in children]
            return self._to.python_udf(expression, guarded(expression), [condition, *given])
        return self._to.with_children(expression, children) if before else expression

    def _argument(self, expression: Node, condition: Node) -> Node:
        if name(expression) == "NamedArgumentExpression":
            value = self._to.null_unless(condition, expression.value())
            return self._to.with_children(expression, [value])
        return self._to.null_unless(condition, expression)

    def _condition(self, expression: Node) -> Node:
        return self._attribute("__whole") if self._facts.of_record(expression) else self._live

    def _guarded(self, column: Node) -> Node:
        condition = self._condition(column.child())
        return self._to.null_unless(
            condition, self._asked(self._bounded(column.child()), condition)
        )

    def _passing(self, node: Node) -> Node:
        conditions = []
        for part in conjuncts(node.condition()):
            when = self._condition(part)
            conditions.append(
                self._make.If(when, self._asked(self._bounded(part), when), self._to.true)
            )
        return self._make.If(self._live, self._to.all_of(conditions), self._to.true)

    def _generate(self, node: Node) -> Node:
        child, generator = self._rewrite(node.child()), node.generator()
        collection, *others = each(generator.children())
        condition = self._condition(generator)
        collection = self._asked(self._bounded(collection), condition)
        safe_collection = self._to.null_unless(condition, collection)
        before = list(each(child.output()))
        child, tried = self._try([safe_collection], child)
        judged = {str(one.name()): one for one in self._judged(tried)}
        child = self._to.project(
            [*(judged.get(str(one.name()), one) for one in before), tried], child
        )
        collection = self._to.field(tried, 0)
        others = [self._asked(self._bounded(other), condition) for other in others]
        safe = self._to.with_children(generator, [collection, *others])
        if name(generator) == "JsonTuple":  # always makes one row
            return self._to.generate(node, safe, child, outer=False)
        if not node.outer():
            condition = self._condition(generator)
            some = self._to.has_elements(collection)
            child = self._to.logical.Filter(self._make.If(condition, some, self._to.true), child)
        return self._to.generate(node, safe, child, outer=True)
