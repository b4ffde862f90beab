"""Hidden columns through a user's plan, and markers, refused records and tombstones past it.

    Project(a, f(b) AS c)   becomes  Project(a, IF(live, f(b), NULL) AS c, hidden columns)
    Filter(x AND y(value))  becomes  Filter(IF(live, x AND IF(whole, y(value), true), true))
    explode(array)          becomes  explode_outer(IF(live, array, NULL)) behind a filter that drops
                                     live rows of which explode makes none

`live`: a record that is not refused. `whole`: that has a value, too, is no tombstone. What reads
`value` is not asked of tombstones, unless the query itself says `value IS NULL` or IS NOT NULL.
"""

from __future__ import annotations

from causeway.transform.catalyst import Catalyst, Node, conjuncts, each, id_of, name
from causeway.transform.refusals import Facts
from causeway.transform.udfs import guarded


class Rewriter:
    """For one plan that `refusals.examine` found nothing against."""

    def __init__(self, catalyst: Catalyst, facts: Facts, records: Node, hidden: list[Node]) -> None:
        """`records`: the plan to stand for the view, with the view's columns by their ids and then
        the `hidden` ones, among them `__live` and `__whole`."""
        self._to = catalyst
        self._facts = facts
        self._records = records
        self._hidden = hidden
        by_name = {str(column.name()): column for column in hidden}
        self._live, self._whole = by_name["__live"], by_name["__whole"]
        self._tables: dict[int, Node] = {}

    def rewrite(self, node: Node) -> Node:
        match name(node):
            case "Project":
                columns = [self._guarded(column) for column in each(node.projectList())]
                return self._to.project([*columns, *self._hidden], self.rewrite(node.child()))
            case "Filter":
                return self._to.filter(self._passing(node), self.rewrite(node.child()))
            case "Generate":
                return self._generate(node)
            case "SubqueryAlias" | "View" | "PipeOperator":
                return self.rewrite(node.child())
            case "WithCTE":
                self._tables |= {int(one.id()): one.child() for one in each(node.cteDefs())}
                return self.rewrite(node.plan())
            case "CTERelationRef":
                return self._table(node)
            case _:
                return self._records

    def _table(self, node: Node) -> Node:
        table = self._tables[int(node.cteId())]
        columns = [
            here if id_of(here) == id_of(there) else self._to.alias(there, here)
            for there, here in zip(each(table.output()), each(node.output()), strict=True)
        ]
        return self._to.project([*columns, *self._hidden], self.rewrite(table))

    def _calls(self, expression: Node, condition: Node) -> Node:
        """With user-defined functions asked only where `condition` holds: Spark calls them for each
        row, whatever stands around them, and gives them what `condition` keeps from others."""
        before = list(each(expression.children())) if self._facts.calls_python else []
        children = [self._calls(child, condition) for child in before]
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
        return self._whole if self._facts.of_record(expression) else self._live

    def _guarded(self, column: Node) -> Node:
        if name(column) != "Alias" or name(column.child()) == "AttributeReference":
            return column
        condition = self._condition(column.child())
        child = self._calls(column.child(), condition)
        return self._to.with_children(column, [self._to.null_unless(condition, child)])

    def _passing(self, node: Node) -> Node:
        conditions = []
        for part in conjuncts(node.condition()):
            when = self._condition(part)
            conditions.append(self._to.if_(when, self._calls(part, when), self._to.true))
        return self._to.if_(self._live, self._to.all_of(conditions), self._to.true)

    def _generate(self, node: Node) -> Node:
        child, generator = self.rewrite(node.child()), node.generator()
        collection, *others = each(generator.children())
        condition = self._condition(generator)
        collection = self._calls(collection, condition)
        safe_collection = self._to.null_unless(condition, collection)
        safe = self._to.with_children(generator, [safe_collection, *others])
        if name(generator) == "JsonTuple":  # always makes one row
            return self._to.generate(node, safe, child, outer=False)
        if not node.outer():
            some = self._to.has_elements(collection)
            child = self._to.filter(self._to.if_(condition, some, self._to.true), child)
        return self._to.generate(node, safe, child, outer=True)
