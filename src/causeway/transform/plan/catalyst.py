"""Gives Python access to Spark's analysed plans: Catalyst's trees over Py4J.

These are Spark's internals. Only this module, `refusals`, `rewrite` and `shortcut` know their
names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Node = Any  # a TreeNode: a LogicalPlan or an Expression
_CATALYST = "org.apache.spark.sql.catalyst"


class QueryPlace(NamedTuple):
    """A place in a SQL text, line and position counted from 1; or a line of a Python function."""

    line: int = 0
    position: int = 0
    call: str = ""

    def __bool__(self) -> bool:
        return bool(self.line or self.call)

    def __str__(self) -> str:
        if self.line:
            return f"line {self.line}, position {self.position}: "
        return f"{self.call}: " if self.call else ""


def each(seq: Any) -> Iterator[Any]:
    """Yields the elements of a Scala Seq."""
    return (seq.apply(at) for at in range(seq.size()))


def name(node: Node) -> str:
    """Returns a name such as `Project`, `Filter` or `Upper`."""
    return str(node.nodeName())


def type_of(expression: Node) -> str:
    """Returns a type such as `string` or `decimal(10,2)`."""
    return str(expression.dataType().simpleString())


def place(node: Node) -> QueryPlace:
    origin = node.origin()
    if origin.line().isDefined() and origin.startPosition().isDefined():
        return QueryPlace(origin.line().get(), origin.startPosition().get() + 1)
    context = origin.pysparkErrorContext()
    return (
        QueryPlace(call=str(context.get()._2()).strip().rpartition("/")[2])
        if context.isDefined()
        else QueryPlace()
    )


def id_of(attribute: Node) -> int:
    return int(attribute.exprId().id())


def references(expression: Node) -> set[int]:
    return {id_of(one) for one in each(expression.references().toSeq())}


def conjuncts(condition: Node) -> list[Node]:
    if name(condition) != "And":
        return [condition]
    return conjuncts(condition.left()) + conjuncts(condition.right())


def left_out_of(parsed: Node) -> set[str]:
    """Returns the names that a query, parsed but not analysed, removes from `*` by EXCEPT or
    DROP."""
    found: set[str] = set()
    todo = [parsed]
    while todo:
        node = todo.pop()
        todo += [*each(node.children()), *each(node.innerChildren())]
        if name(node) != "Project":
            continue
        for column in each(node.projectList()):
            if name(column) != "UnresolvedStarExceptOrReplace":
                continue
            if column.replacements().isEmpty():  # SET replaces the column
                found |= {str(part).lower() for one in each(column.excepts()) for part in each(one)}
    return found


# Expressions that give a value, or null, for all input.
_NEVER_THROW = frozenset(
    {
        *("AttributeReference", "Literal", "Alias", "GetStructField", "CreateNamedStruct"),
        *("If", "CaseWhen", "Coalesce", "IsNull", "IsNotNull", "And", "Or", "Not"),
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"),
        *("GreaterThan", "GreaterThanOrEqual", "Contains", "StartsWith", "EndsWith"),
        *("Length", "OctetLength", "Substring", "SubstringIndex", "Concat", "BitwiseOr"),
        "LengthOfJsonArray",
        *("SchemaOfVariant", "IsVariantNull"),
    }
)


def never_throws(expression: Node) -> bool:
    """Returns whether the expression consists of expressions that give a value or null for all
    input."""
    known = name(expression) in _NEVER_THROW
    if name(expression) == "VariantGet":
        kept = expression.dataType().typeName() == "variant"  # nothing to convert
        # An invalid path throws for any type. Constant paths are checked when a job starts.
        known = expression.path().foldable() and (kept or not expression.failOnError())
    return known and all(map(never_throws, each(expression.children())))


class Catalyst:
    """Constructors of plans and expressions. `expressions` and `logical` have Spark's own."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self.expressions = getattr(jvm, f"{_CATALYST}.expressions")
        self.logical = getattr(jvm, f"{_CATALYST}.plans.logical")
        literal = self.expressions.Literal
        self.true = literal.TrueLiteral()
        self._types = getattr(jvm, "org.apache.spark.sql.types.DataTypes")
        self._zero = literal.create(0, self._types.IntegerType)

    def seq(self, nodes: Sequence[Any]) -> Any:
        python = getattr(self._jvm, "org.apache.spark.api.python.PythonUtils")
        return python.toSeq(list(nodes))

    def none(self) -> Any:
        return getattr(self._jvm, "scala.Option").empty()

    def replaced(self, plan: Node) -> Node:
        """Returns `plan` after Spark has replaced functions such as `to_timestamp`."""
        rule = getattr(self._jvm, "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$")
        return getattr(rule, "MODULE$").apply(plan)

    def without(self, text: Node, pattern: str) -> Node:
        """Returns `text`, or an empty text if `pattern` matches it."""
        whole = self.text(f"(?s)(?:{pattern}).*")
        return self.expressions.RegExpReplace(text, whole, self.text(""))

    def null_unless(self, condition: Node, expression: Node) -> Node:
        null = self.expressions.Literal.create(None, expression.dataType())
        return self.expressions.If(condition, expression, null)

    def text(self, value: str) -> Node:
        return self.expressions.Literal.create(value, self._types.StringType)

    def struct(self, expressions: Sequence[Node]) -> Node:
        """Returns a struct of the values of `expressions`."""
        fields = [part for one in expressions for part in (self.text("_"), one)]
        return self.expressions.CreateNamedStruct(self.seq(fields))

    def field(self, struct: Node, at: int) -> Node:
        return self.expressions.GetStructField(struct, at, self.none())

    def all_of(self, conditions: Sequence[Node]) -> Node:
        first, *others = conditions
        for other in others:
            first = self.expressions.And(first, other)
        return first

    def has_elements(self, collection: Node) -> Node:
        size = self.expressions.Size(collection, False)
        return self.expressions.GreaterThan(size, self._zero)

    def alias(self, expression: Node, attribute: Node) -> Node:
        """Returns `expression` under the name and id of `attribute`."""
        none, nothing = self.none(), self.seq([])
        return self.expressions.Alias(
            expression, attribute.name(), attribute.exprId(), nothing, none, nothing
        )

    def named(self, expression: Node, name: str) -> Node:
        """Returns `expression` as a new attribute."""
        none, nothing = self.none(), self.seq([])
        fresh = self.expressions.NamedExpression.newExprId()
        return self.expressions.Alias(expression, name, fresh, nothing, none, nothing)

    def python_udf(self, udf: Node, function: Any, children: Sequence[Node]) -> Node:
        """Returns `udf` with another function and other arguments."""
        return self.expressions.PythonUDF(
            udf.name(),
            function,
            udf.dataType(),
            self.seq(children),
            udf.evalType(),
            udf.udfDeterministic(),
            udf.resultId(),
        )

    def with_children(self, node: Node, children: Sequence[Node]) -> Node:
        return node.withNewChildren(self.seq(children))

    def project(self, columns: Sequence[Node], child: Node) -> Node:
        return self.logical.Project(self.seq(columns), child)

    def generate(self, node: Node, generator: Node, child: Node, *, outer: bool) -> Node:
        """Returns `node` with another generator and child."""
        return self.logical.Generate(
            generator,
            node.unrequiredChildIndex(),
            outer,
            node.qualifier(),
            node.generatorOutput(),
            child,
        )
