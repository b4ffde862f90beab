"""Which topics can be fenced, how, and which fences are over."""

from __future__ import annotations

from causeway.control import fences
from causeway.control.directive_json import decode, encode
from causeway.control.directives import Directive, Kind, Scope, Standing
from causeway.control.fences import DENY_WRITE
from causeway.errors import ConfigError, PrerequisiteError
from causeway.wire.cluster import AclBinding, SecurityDisabled


def acl(
    name: str, operation: str = "WRITE", *, permission: str = "ALLOW", **more: str
) -> AclBinding:
    fields = {"pattern": "LITERAL", "principal": "User:shop", "host": "*", **more}
    return AclBinding(
        resource_type="TOPIC", name=name, operation=operation, permission=permission, **fields
    )


def fence(topic: str, until: int, *, at: int = 1) -> Directive:
    return Directive(
        kind=Kind.FENCE, scope=Scope(topic), who="anna@ops", at=at, until=until, acls=(DENY_WRITE,)
    )


def standing(*found: Directive) -> Standing:
    return Standing().with_all((each.key, each) for each in found)


def test_writing_is_denied_to_everybody_once() -> None:
    acls = frozenset({acl("orders")})
    planned = fences.plan(acls, ["orders"], "A", open_by_default=False)
    assert planned.acls == {"orders": (DENY_WRITE,)}
    (set_,) = fences.bindings(fence("orders", 5))
    assert set_ == acl("orders", permission="DENY", principal="User:*")
    assert not fences.denies_writes(acls, "orders")
    assert fences.denies_writes(acls | {set_}, "orders")
    assert not fences.denies_writes(acls | {set_}, "orders-2")


def test_a_denial_of_somebody_else_is_not_ours_to_lift() -> None:
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
    some = standing(fence("orders", 1_000), fence("bills", 900), fence("users", 1_001))
    assert [each.scope.topic for each in fences.expired(some, 1_000)] == ["bills", "orders"]
    assert fences.fences(some, ["users", "items"]).keys() == {"users"}


def test_a_record_tells_what_was_set() -> None:
    for each in (
        fence("orders", 1_000),
        Directive(kind=Kind.CUTOVER, who="anna@ops", at=1, until=2, run="abc"),
    ):
        assert decode(*encode((each.key, each))) == (each.key, each)
