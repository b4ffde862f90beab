"""Which topics can be fenced, how, and which fences are over."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.cluster import AclBinding, SecurityDisabled
from causeway.control import DENY_WRITE, Sharer, fences
from causeway.errors import (
    AuthorizationError,
    CausewayError,
    ConfigError,
    PrerequisiteError,
    UnreachableError,
)
from causeway.link_topics import (
    CutoverDirective,
    Directive,
    DirectivePlan,
    FenceDirective,
    LinkDirectives,
    Scope,
    decode_directive,
    encode_directive,
)
from tests.harness.directives import replace_writes


def acl(
    name: str, operation: str = "WRITE", *, permission: str = "ALLOW", **more: str
) -> AclBinding:
    fields = {"pattern": "LITERAL", "principal": "User:shop", "host": "*", **more}
    return AclBinding(
        resource_type="TOPIC", name=name, operation=operation, permission=permission, **fields
    )


def fence(topic: str, until: int, *, at: int = 1) -> FenceDirective:
    return FenceDirective(
        scope=Scope(topic),
        who="anna@ops",
        at=at,
        until=until,
        acls=(DENY_WRITE,),
    )


def directives(*found: Directive) -> LinkDirectives:
    return LinkDirectives().with_all((each.key, each) for each in found)


def test_writing_is_denied_to_everybody_once() -> None:
    acls = frozenset({acl("orders")})
    planned = fences.plan(acls, ["orders"], "A", open_by_default=False)
    assert planned.acls == {"orders": (DENY_WRITE,)}
    (set_,) = fences.bindings(fence("orders", 5))
    assert set_ == acl("orders", permission="DENY", principal="User:*")
    assert not fences.denies_writes(acls, "orders")
    assert fences.denies_writes(acls | {set_}, "orders")
    assert not fences.denies_writes(acls | {set_}, "orders-2")


def test_a_denial_of_another_author_is_not_lifted() -> None:
    for theirs in (
        acl("orders", permission="DENY", principal="User:*"),
        acl("ord", "ALL", permission="DENY", principal="User:*", pattern="PREFIXED"),
        acl("*", permission="DENY", principal="User:*"),
    ):
        planned = fences.plan(frozenset({theirs}), ["orders"], "A", open_by_default=False)
        assert planned.acls == {"orders": ()}
    for too_little in (
        acl("orders", permission="DENY"),
        acl("orders", permission="DENY", principal="User:*", host="10.0.0.1"),
        acl("orders", "READ", permission="DENY", principal="User:*"),
    ):
        planned = fences.plan(frozenset({too_little}), ["orders"], "A", open_by_default=False)
        assert planned.acls == {"orders": (DENY_WRITE,)}


def test_a_cluster_without_an_authorizer_cannot_fence() -> None:
    planned = fences.plan(SecurityDisabled(cluster="A"), ["orders"], "A", open_by_default=True)
    assert not planned.acls
    assert isinstance(planned.problems["orders"], PrerequisiteError)
    assert "without --fence" in str(planned.problems["orders"])


def test_a_first_acl_that_would_shut_out_readers_is_refused() -> None:
    other = frozenset({acl("bills")})
    planned = fences.plan(other, ["orders", "bills"], "A", open_by_default=True)
    assert planned.acls == {"bills": (DENY_WRITE,)}
    assert isinstance(planned.problems["orders"], ConfigError)
    by_prefix = frozenset({acl("or", pattern="PREFIXED")})
    assert fences.plan(by_prefix, ["orders"], "A", open_by_default=True).acls
    assert fences.plan(other, ["orders"], "A", open_by_default=False).acls


def test_a_fence_is_over_when_its_time_is() -> None:
    some = directives(fence("orders", 1_000), fence("bills", 900), fence("users", 1_001))
    assert [each.scope.topic for each in fences.expired(some, 1_000)] == ["bills", "orders"]
    assert fences.fences(some, ["users", "items"]).keys() == {"users"}


def test_a_record_tells_what_was_set() -> None:
    for each in (
        fence("orders", 1_000),
        CutoverDirective(who="anna@ops", at=1, until=2, run="abc"),
    ):
        assert decode_directive(*encode_directive((each.key, each))) == (each.key, each)


class Sides:
    """The rules of a source, and the directives of the targets of two links from it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acls: set[AclBinding] = set()
        self.directives = {"A->B": LinkDirectives(), "A->C": LinkDirectives()}
        self.trouble: CausewayError | None = None
        self.links = {
            name: cast(Any, SimpleNamespace(name=name, directives_topic=name))
            for name in self.directives
        }
        monkeypatch.setattr(fences, "DirectiveLog", self.log)
        replace_writes(monkeypatch, self.write)

    def log(self, _: object, name: str) -> Any:
        def look() -> None:
            if isinstance(self.trouble, AuthorizationError):
                raise self.trouble

        return SimpleNamespace(look=look, directives=self.directives[name])

    def bootstrap_check(self, timeout_s: float) -> None:
        assert timeout_s <= 5, "nobody may write meanwhile"
        if isinstance(self.trouble, UnreachableError):
            raise self.trouble

    def write(self, _: object, link: Any, decide: Callable[[LinkDirectives], DirectivePlan]) -> Any:
        plan = decide(self.directives[link.name])
        self.directives[link.name] = self.directives[link.name].with_all(plan.changes)
        return SimpleNamespace(plan=plan)

    def create_acls(self, wanted: list[AclBinding]) -> dict[AclBinding, None]:
        self.acls |= set(wanted)
        return dict.fromkeys(wanted)

    def delete_acls(self, doomed: list[AclBinding]) -> dict[AclBinding, None]:
        self.acls -= set(doomed)
        return dict.fromkeys(doomed)

    def set_up(self, name: str, until: int) -> None:
        planned = fences.plan(frozenset(self.acls), ["orders"], "A", open_by_default=False)
        wish = FenceDirective(
            scope=Scope("orders"),
            who="anna@ops",
            at=0,
            until=1_000 * until,
            acls=planned.acls["orders"],
        )
        me = cast(Any, self)
        fences.set_up(me, me, self.links[name], [wish], self.others(name))

    def lift(self, name: str) -> None:
        me = cast(Any, self)
        found = list(fences.fences(self.directives[name]).values())
        assert fences.lift(me, me, self.links[name], found, self.others(name)) == {"orders": None}
        assert not fences.fences(self.directives[name])

    def others(self, name: str) -> list[Sharer]:
        me = cast(Any, self)
        return [Sharer(me, link) for other, link in self.links.items() if other != name]

    @property
    def is_fenced(self) -> bool:
        return fences.denies_writes(frozenset(self.acls), "orders")


@pytest.mark.parametrize(("first", "second"), [("A->B", "A->C"), ("A->C", "A->B")])
def test_a_fence_of_two_links_stays_until_both_are_lifted(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    sides = Sides(monkeypatch)
    sides.set_up("A->B", 300)
    sides.set_up("A->C", 500)
    ends = {name: fences.fences(each)["orders"].until for name, each in sides.directives.items()}
    assert ends == {"A->B": 500_000, "A->C": 500_000}, "the rule's fence is over with the last"
    sides.lift(first)
    assert sides.is_fenced
    sides.lift(second)
    assert not sides.is_fenced


@pytest.mark.parametrize(
    "trouble", [UnreachableError("reach", "C"), AuthorizationError("read", "directives")]
)
def test_an_unreachable_sharer_does_not_prevent_a_lift(
    monkeypatch: pytest.MonkeyPatch, trouble: CausewayError
) -> None:
    sides = Sides(monkeypatch)
    sides.set_up("A->B", 300)
    sides.set_up("A->C", 500)
    sides.trouble = trouble
    sides.lift("A->B")
    assert not sides.is_fenced
