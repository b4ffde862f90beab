"""Which ACLs mirrored topics get; no broker takes part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import AclBinding, SecurityDisabled
from causeway.config import ClientSettings, ControlSettings, SaslSettings
from causeway.control import AclPlan
from causeway.control.acls import (
    EVERYBODY,
    ObservedAcls,
    apply,
    observe,
    plan,
    read_only_denials,
    remove_denials,
)
from causeway.errors import CausewayError, UnreachableError
from tests.builders.settings import link
from tests.builders.topics import acl, mirrored

US = "User:causeway"
PLAIN = ControlSettings()
READ_ONLY = ControlSettings(sync_topic_acls_enabled=False, read_only_mirrors=True, principal=US)
BOTH = replace(READ_ONLY, sync_topic_acls_enabled=True)


def decide(
    source: Iterable[AclBinding],
    target: Iterable[AclBinding] = (),
    control: ControlSettings = PLAIN,
    topics: Iterable[str] = ("orders",),
) -> AclPlan:
    observed = ObservedAcls(source=frozenset(source), target=frozenset(target))
    return plan(observed, mirrored(*topics), link(control=control))


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE", "DELETE", "ALTER_CONFIGS"])
@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
def test_an_acl_of_a_mirrored_topic_is_copied(operation: str, permission: str) -> None:
    source = acl(permission, operation, "orders", host="10.0.0.1")
    assert decide([source]).creates == (replace(source, name="A.orders"),)


def test_writing_is_not_handed_on() -> None:
    planned = decide([acl("ALLOW", "WRITE", "orders"), acl("ALLOW", "ALL", "orders")])
    assert planned.creates == (acl("ALLOW", "READ", "A.orders"),)
    assert [left.reason for left in planned.left_out] == ["a mirror is written by its mirror only"]


def test_what_is_denied_stays_denied() -> None:
    source = [acl("DENY", "WRITE", "orders"), acl("DENY", "ALL", "orders", "User:bob")]
    assert decide(source).creates == (
        acl("DENY", "ALL", "A.orders", "User:bob"),
        acl("DENY", "WRITE", "A.orders"),
    )


@pytest.mark.parametrize("principal", [EVERYBODY, US])
def test_a_deny_that_would_stop_causeway_is_reported_and_not_copied(principal: str) -> None:
    control = ControlSettings(principal=US)
    planned = decide([acl("DENY", "READ", "orders", principal)], control=control)
    assert planned.creates == ()
    (problem,) = planned.problems
    assert "would stop Causeway itself" in str(problem)
    deleting = acl("DENY", "DELETE", "orders", principal)
    assert decide([deleting], control=control).creates == (replace(deleting, name="A.orders"),)


@pytest.mark.parametrize(
    ("target", "hits"),
    [
        ({"protocol": "SASL_SSL", "sasl": SaslSettings(mechanism="PLAIN", username="ann")}, True),
        ({"protocol": "SASL_SSL", "sasl": SaslSettings(mechanism="PLAIN", username="bob")}, False),
        ({"protocol": "PLAINTEXT"}, False),
        ({"protocol": "SSL"}, True),  # who knows what the broker makes of our certificate
    ],
)
def test_without_a_principal_it_is_who_we_log_in_as(target: dict[str, Any], hits: bool) -> None:
    source = [acl("DENY", "WRITE", "orders", "User:ann")]
    observed = ObservedAcls(source=frozenset(source), target=frozenset())
    there = ClientSettings(alias="B", bootstrap=(("b", 1),), **target)
    flow = replace(link(control=PLAIN), target=there, target_admin=there)
    planned = plan(observed, mirrored("orders"), flow)
    assert [len(planned.creates), len(planned.problems)] == ([0, 1] if hits else [1, 0])


def test_acls_about_names_are_left_out_with_what_they_would_be() -> None:
    source = [
        acl("ALLOW", "READ", "ord", pattern="PREFIXED"),
        acl("ALLOW", "READ", "*"),
        acl("ALLOW", "READ", "other", pattern="PREFIXED"),
        acl("ALLOW", "READ", "unmirrored"),
    ]
    planned = decide(source)
    assert planned.creates == ()
    assert {left.acl.name: left.reason for left in planned.left_out} == {
        "ord": "only LITERAL ACLs on a topic are copied; on B it would be PREFIXED 'A.ord'",
        "*": "only LITERAL ACLs on a topic are copied; on B it would be PREFIXED 'A.'",
    }
    assert all(left.is_missed for left in planned.left_out)
    assert planned.problems == ()


def test_acls_left_out_on_purpose_are_not_missing() -> None:
    source = [acl("ALLOW", "WRITE", "orders"), acl("ALLOW", "WRITE", "ord", pattern="PREFIXED")]
    planned = decide(source)
    assert [left.is_missed for left in planned.left_out] == [False, False]


def test_only_differences_are_written_and_nothing_is_taken_away() -> None:
    source = [acl("ALLOW", "READ", "orders"), acl("ALLOW", "READ", "orders", "User:bob")]
    there = [acl("ALLOW", "READ", "A.orders"), acl("ALLOW", "READ", "A.orders", "User:gone")]
    assert decide(source, there).creates == (acl("ALLOW", "READ", "A.orders", "User:bob"),)


def test_clusters_without_an_authorizer_are_in_order() -> None:
    none_on = {alias: SecurityDisabled(cluster=alias) for alias in "AB"}
    some = frozenset([acl("ALLOW", "READ", "orders")])
    for source, target, named in ((none_on["A"], some, "A"), (some, none_on["B"], "B")):
        planned = plan(
            ObservedAcls(source=source, target=target), mirrored("orders"), link(control=BOTH)
        )
        assert planned.creates == ()
        assert planned.problems == ()
        assert planned.notes == (f"{named} has no authorizer, so no ACLs are copied",)


def test_mirrors_are_read_only_without_the_source_s_acls() -> None:
    target = [acl("ALLOW", "WRITE", "A.orders")]
    observed = ObservedAcls(source=SecurityDisabled(cluster="A"), target=frozenset(target))
    planned = plan(observed, mirrored("orders"), link(control=BOTH))
    assert planned.creates == (acl("DENY", "WRITE", "A.orders"),)


@pytest.mark.parametrize(
    "allowing",
    [
        acl("ALLOW", "WRITE", "A.orders", host="10.0.0.1"),
        acl("ALLOW", "ALL", "A.", pattern="PREFIXED"),
        acl("ALLOW", "ALL", "", pattern="PREFIXED"),
        acl("ALLOW", "WRITE", "*"),
    ],
)
def test_principals_that_may_write_to_a_mirror_are_denied(allowing: AclBinding) -> None:
    ours = replace(allowing, principal=US)
    planned = decide([], [allowing, ours], READ_ONLY, topics=["orders", "pay"])
    expected = [acl("DENY", "WRITE", "A.orders")]
    if allowing.name != "A.orders":
        expected.append(acl("DENY", "WRITE", "A.pay"))
    assert planned.creates == tuple(expected)
    assert decide([], [allowing, ours, *expected], READ_ONLY, ["orders", "pay"]).creates == ()


def test_who_may_not_write_anyway_needs_no_deny() -> None:
    target = [
        acl("ALLOW", "READ", "A.orders"),
        acl("ALLOW", "WRITE", "orders"),
        acl("ALLOW", "WRITE", "A.orders.old", pattern="PREFIXED"),
        acl("ALLOW", "WRITE", "A.orders", "User:bob"),
        acl("DENY", "ALL", "A.", "User:bob", pattern="PREFIXED"),
    ]
    assert decide([], target, READ_ONLY).creates == ()


def test_an_acl_for_everybody_cannot_be_countered() -> None:
    open_to_all = acl("ALLOW", "WRITE", "*", EVERYBODY)
    planned = decide([], [open_to_all, acl("ALLOW", "ALL", "A.orders")], READ_ONLY, ["orders", "b"])
    assert planned.creates == (acl("DENY", "WRITE", "A.orders"),)
    (problem,) = planned.problems
    assert str(open_to_all) in str(problem)
    assert "User:causeway too: a DENY beats every ALLOW" in str(problem)
    assert "replace it by ACLs that name principals" in problem.remedy


operations = st.sampled_from(["READ", "WRITE", "ALL", "DESCRIBE", "DELETE"])
bindings = st.builds(
    acl,
    st.sampled_from(["ALLOW", "DENY"]),
    operations,
    st.sampled_from(["a", "ab", "A.a", "A.ab", "A.", "*", ""]),
    st.sampled_from(["User:ann", "User:bob", US, EVERYBODY]),
    pattern=st.sampled_from(["LITERAL", "PREFIXED"]),
    host=st.sampled_from(["*", "10.0.0.1"]),
)


def may(acls: Iterable[AclBinding], who: str, operation: str, topic: str) -> bool:
    """Kafka's rule: a DENY beats every ALLOW, and without either nobody may. From host 10.0.0.1."""
    bearing = [
        rule
        for rule in acls
        if rule.principal in (who, EVERYBODY)
        and rule.operation in (operation, "ALL")
        and (
            topic.startswith(rule.name) if rule.pattern == "PREFIXED" else rule.name in (topic, "*")
        )
    ]
    return bool(bearing) and all(rule.permission == "ALLOW" for rule in bearing)


@given(st.sets(bindings), st.sets(bindings))
def test_a_read_only_mirror_denies_all_other_writers(
    source: set[AclBinding], target: set[AclBinding]
) -> None:
    planned = decide(source, target, BOTH, topics=["a", "ab"])
    after = target | set(planned.creates)
    told = any("make mirrors read-only" in str(problem) for problem in planned.problems)
    for mirror in ("A.a", "A.ab"):
        assert may(after, US, "WRITE", mirror) == may(target, US, "WRITE", mirror)
        for who in ("User:ann", "User:bob", "User:eve"):
            assert told or not may(after, who, "WRITE", mirror)
    assert decide(source, after, BOTH, topics=["a", "ab"]).creates == ()


class FakeCluster:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __str__(self) -> str:
        return "B"

    def describe_acls(self) -> Any:
        return self.answer

    def create_acls(self, _: Any) -> Any:
        if isinstance(self.answer, CausewayError):
            raise self.answer
        return self.answer


def test_what_made_a_mirror_read_only_is_taken_away_and_nothing_else() -> None:
    writes = [acl("ALLOW", "WRITE", "A.", "User:ann", pattern="PREFIXED")]
    others = [
        acl("DENY", "WRITE", "A.orders", "User:eve"),  # nothing lets her write anyway
        acl("DENY", "READ", "A.orders"),
        acl("DENY", "WRITE", "A.orders", EVERYBODY),
        acl("DENY", "WRITE", "A.orders", host="10.0.0.1"),
    ]
    before = frozenset([*writes, *others[:2], *others[3:]])
    added = decide([], before, READ_ONLY, ["orders", "pay"]).creates
    assert {each.name for each in added} == {"A.orders", "A.pay"}
    found = read_only_denials(before | set(added), ["A.orders"], link(control=READ_ONLY))
    assert found == (acl("DENY", "WRITE", "A.orders"),)
    assert read_only_denials(before | set(added), ["A.orders"], link(control=BOTH)) == found
    assert not read_only_denials(before | set(added), ["A.orders"], link(control=PLAIN)), (
        "the file does not mention it"
    )
    assert not read_only_denials(
        SecurityDisabled(cluster="B"), ["A.orders"], link(control=READ_ONLY)
    )


def test_a_rule_that_stays_is_reported() -> None:
    class Target:
        def delete_acls(self, which: Iterable[AclBinding]) -> dict[AclBinding, CausewayError]:
            return {each: UnreachableError("delete ACL", "B") for each in which}

    with pytest.raises(UnreachableError):
        remove_denials([acl("DENY", "WRITE", "A.orders")], Target())  # type: ignore[arg-type]
    remove_denials([], Target())  # type: ignore[arg-type]


def test_the_source_is_asked_only_if_its_acls_are_copied() -> None:
    source: Any = FakeCluster(frozenset([acl("ALLOW", "READ", "orders")]))
    target: Any = FakeCluster(frozenset())
    assert observe(source, target, link()).source == source.answer
    assert observe(source, target, link(control=READ_ONLY)).source == frozenset()


def test_each_acl_has_its_answer() -> None:
    one, two = acl("ALLOW", "READ", "A.a"), acl("ALLOW", "READ", "A.b")
    done: Any = FakeCluster({one: None, two: None})
    assert apply([one, two], done) == {one: None, two: None}
    gone = UnreachableError("reach", "cluster B", "no broker answered")
    down: Any = FakeCluster(gone)
    assert apply([one, two], down) == {one: gone, two: gone}
    disabled: Any = FakeCluster(SecurityDisabled(cluster="B"))
    assert all("no authorizer" in str(error) for error in apply([one, two], disabled).values())
