"""What people choose to have mirrored: what is written of it, and whether a link acts on it."""

from __future__ import annotations

from dataclasses import replace

from causeway.control.geo_topics import (
    asked,
    chosen,
    is_why_not,
    not_known,
    plan_forget,
    plan_leave,
    plan_mirror,
    why_not,
)
from causeway.errors import UnreachableError
from causeway.link_topics.directives import THE_LINK, Directive, Kind, Plan, Scope, Standing, plan
from tests.unit.daemon.test_claims import LINK

ORDERS, BILLS = Scope("orders"), Scope("bills")
GEO = replace(LINK, geo=True)


def wish(
    kind: Kind, scope: Scope = THE_LINK, who: str = "anna@ops", cluster: str = ""
) -> Directive:
    return Directive(kind=kind, scope=scope, who=who, at=1, cluster=cluster)


def after(*wishes: Directive) -> Standing:
    return Standing({each.key: each for each in wishes})


def test_who_chose_first_stays_the_one_who_did() -> None:
    first = wish(Kind.MIRROR, ORDERS)
    new = wish(Kind.MIRROR, BILLS, "ben@ops")
    found = plan_mirror(after(first), [replace(first, who="ben@ops"), new])
    assert found == Plan(changes=((new.key, new),))
    assert chosen(after(first).with_all(found.changes)) == {"orders": first, "bills": new}


def test_what_is_chosen_no_more_leaves_no_pause_behind() -> None:
    kept = wish(Kind.PAUSE, BILLS)
    link = wish(Kind.PAUSE)
    both = [wish(Kind.MIRROR, ORDERS), wish(Kind.MIRROR, BILLS)]
    own = [wish(Kind.PAUSE, Scope("orders", 3)), wish(Kind.THROTTLE, ORDERS)]
    standing = after(*both, kept, link, *own)
    left = standing.with_all(plan_leave(standing, ["orders", "nothing"]).changes)
    assert set(left.by_key.values()) == {both[1], kept, link}
    # The pause of a topic that the file names is nobody's here to take back.
    assert plan_leave(after(kept), ["bills"]) == Plan()


def test_a_name_is_free_again_once_its_destination_is_forgotten() -> None:
    standing = after(
        wish(Kind.ORIGIN, cluster="x"),
        wish(Kind.MIRROR, ORDERS),
        wish(Kind.PAUSE, ORDERS),
        wish(Kind.THROTTLE),
    )
    left = standing.with_all(plan_forget(standing).changes)
    assert [each.kind for each in left.by_key.values()] == [Kind.THROTTLE]


def test_a_link_acts_only_where_it_may_and_only_for_its_own_source() -> None:
    standing = after(wish(Kind.ORIGIN, cluster="x"), wish(Kind.MIRROR, ORDERS))
    assert why_not(standing, GEO, "x") is None
    assert why_not(after(wish(Kind.MIRROR, ORDERS)), GEO, "x") is None
    assert why_not(after(wish(Kind.ORIGIN, cluster="x")), LINK, "y") is None  # nothing is chosen
    assert "causeway.geo = true" in str(why_not(standing, LINK, "x"))
    assert "A is the cluster y" in str(why_not(standing, GEO, "y"))
    error = UnreachableError("connect", "A", "no broker answered")
    reasons = [why_not(standing, LINK, "x"), why_not(standing, GEO, "y"), not_known(error)]
    assert all(map(is_why_not, reasons))
    assert not any(map(is_why_not, (None, "3 records are none that this version wrote")))


def test_what_is_chosen_is_no_pause_or_limit() -> None:
    pause = wish(Kind.PAUSE, ORDERS)
    standing = after(wish(Kind.MIRROR, ORDERS), wish(Kind.ORIGIN), pause)
    assert asked(standing) == (pause,)
    assert plan(standing, replace(pause, paused=False)).before == pause
