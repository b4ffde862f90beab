"""What is known of expressions without Spark."""

from __future__ import annotations

import pytest

from causeway.transform.plan.catalyst import never_throws


class Children:
    def __init__(self, *nodes: Node) -> None:
        self._nodes = nodes

    def size(self) -> int:
        return len(self._nodes)

    def apply(self, at: int) -> Node:
        return self._nodes[at]


class Type:
    def __init__(self, name: str) -> None:
        self._name = name

    def typeName(self) -> str:  # noqa: N802
        return self._name


class Node:
    """As Py4J shows an expression."""

    def __init__(self, name: str, *children: Node, to: str = "string", fails: bool = False) -> None:
        self._name, self._children, self._to, self._fails = name, children, to, fails

    def nodeName(self) -> str:  # noqa: N802
        return self._name

    def children(self) -> Children:
        return Children(*self._children)

    def dataType(self) -> Type:  # noqa: N802
        return Type(self._to)

    def failOnError(self) -> bool:  # noqa: N802
        return self._fails

    def path(self) -> Node:
        return self._children[1]

    def foldable(self) -> bool:
        return self._name == "Literal"


COLUMN, TEXT = Node("AttributeReference"), Node("Literal")


@pytest.mark.parametrize(
    ("expression", "safe"),
    [
        (Node("Substring", COLUMN, TEXT, TEXT), True),
        (Node("Substring", Node("Divide", COLUMN, TEXT), TEXT, TEXT), False),
        (Node("VariantGet", COLUMN, TEXT), True),
        (Node("VariantGet", COLUMN, TEXT, fails=True), False),
        (Node("VariantGet", COLUMN, TEXT, to="variant", fails=True), True),
        # A path that records bring may be none: Spark throws on it, also where it "tries".
        (Node("VariantGet", COLUMN, COLUMN), False),
        (Node("VariantGet", COLUMN, COLUMN, to="variant", fails=True), False),
    ],
)
def test_expressions_that_may_throw_are_distinguished(expression: Node, safe: bool) -> None:
    assert never_throws(expression) is safe
