"""What people choose to have mirrored: what is written of it, and whether a link acts on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from causeway.config import LinkSettings, RunSettings, Settings
from causeway.control import geo_topics
from causeway.control.geo_topics import (
    choosing,
    chosen,
    is_why_not,
    not_known,
    plan_forget,
    plan_leave,
    plan_mirror,
    why_not,
    with_chosen,
    without_chosen,
)
from causeway.errors import UnreachableError
from causeway.link_topics import (
    THE_LINK,
    Directive,
    DirectiveKind,
    DirectivePlan,
    LinkDirectives,
    PauseDirective,
    Scope,
    plan_directive,
)
from tests.builders.settings import LINK
from tests.harness.directives import directive

ORDERS, BILLS = Scope("orders"), Scope("bills")
GEO = replace(LINK, geo=True)


def wish(
    kind: DirectiveKind, scope: Scope = THE_LINK, who: str = "anna@ops", cluster: str = ""
) -> Directive:
    fields: dict[str, Any] = {"cluster": cluster} if kind is DirectiveKind.ORIGIN else {}
    return directive(kind, scope, who, **fields)


def after(*wishes: Directive) -> LinkDirectives:
    return LinkDirectives({each.key: each for each in wishes})


def test_who_chose_first_stays_the_one_who_did() -> None:
    first = wish(DirectiveKind.MIRROR, ORDERS)
    new = wish(DirectiveKind.MIRROR, BILLS, "ben@ops")
    found = plan_mirror(after(first), [first.replace(who="ben@ops"), new])
    assert found == DirectivePlan(changes=((new.key, new),))
    assert chosen(after(first).with_all(found.changes)) == {"orders": first, "bills": new}


def test_what_is_chosen_no_more_leaves_no_pause_behind() -> None:
    kept = wish(DirectiveKind.PAUSE, BILLS)
    link = wish(DirectiveKind.PAUSE)
    both = [wish(DirectiveKind.MIRROR, ORDERS), wish(DirectiveKind.MIRROR, BILLS)]
    own = [wish(DirectiveKind.PAUSE, Scope("orders", 3)), wish(DirectiveKind.THROTTLE, ORDERS)]
    directives = after(*both, kept, link, *own)
    left = directives.with_all(plan_leave(directives, ["orders", "nothing"]).changes)
    assert set(left.by_key.values()) == {both[1], kept, link}
    # The pause of a topic that the file names is nobody's here to take back.
    assert plan_leave(after(kept), ["bills"]) == DirectivePlan()


def test_a_name_is_free_again_once_its_destination_is_forgotten() -> None:
    directives = after(
        wish(DirectiveKind.ORIGIN, cluster="x"),
        wish(DirectiveKind.MIRROR, ORDERS),
        wish(DirectiveKind.PAUSE, ORDERS),
        wish(DirectiveKind.THROTTLE),
    )
    left = directives.with_all(plan_forget(directives).changes)
    assert [each.kind for each in left.by_key.values()] == [DirectiveKind.THROTTLE]


def test_a_link_acts_only_where_it_may_and_only_for_its_own_source() -> None:
    directives = after(wish(DirectiveKind.ORIGIN, cluster="x"), wish(DirectiveKind.MIRROR, ORDERS))
    assert why_not(directives, GEO, "x") is None
    assert why_not(after(wish(DirectiveKind.MIRROR, ORDERS)), GEO, "x") is None
    assert (
        why_not(after(wish(DirectiveKind.ORIGIN, cluster="x")), LINK, "y") is None
    )  # nothing is chosen
    assert "causeway.geo = true" in str(why_not(directives, LINK, "x"))
    assert "A is the cluster y" in str(why_not(directives, GEO, "y"))
    error = UnreachableError("connect", "A", "no broker answered")
    reasons = [why_not(directives, LINK, "x"), why_not(directives, GEO, "y"), not_known(error)]
    assert all(map(is_why_not, reasons))
    assert not any(map(is_why_not, (None, "3 records are none that this version wrote")))


def test_what_is_chosen_is_no_pause_or_limit() -> None:
    pause = PauseDirective(scope=ORDERS, who="anna@ops", at=1)
    directives = after(wish(DirectiveKind.MIRROR, ORDERS), wish(DirectiveKind.ORIGIN), pause)
    assert without_chosen(directives) == (pause,)
    assert plan_directive(directives, pause.replace(paused=False)).before == pause


def test_a_link_mirrors_chosen_topics_only_if_its_file_allows_that() -> None:
    directives = after(wish(DirectiveKind.MIRROR, ORDERS), wish(DirectiveKind.BEGIN, BILLS))
    assert choosing(LINK, directives).chosen == frozenset()
    assert choosing(GEO, directives).chosen == {"orders"}
    assert choosing(replace(LINK, way_back=True), directives).chosen == {"bills"}


def test_a_target_that_does_not_answer_leaves_the_settings_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> LinkDirectives:
        raise UnreachableError("connect", "B", "no broker answered")

    settings = Settings(links=(GEO,), run=RunSettings(), spark={})
    monkeypatch.setattr(geo_topics, "learn", fail)
    assert with_chosen(settings) == settings
    directives = after(wish(DirectiveKind.MIRROR, ORDERS))
    monkeypatch.setattr(geo_topics, "learn", lambda *_: directives)
    assert with_chosen(settings).links[0].chosen == {"orders"}
    assert settings.links[0].chosen == frozenset()


def test_a_request_to_one_link_asks_no_target_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(GEO, target=replace(GEO.target, alias="C"))
    asked = []

    def learn(_: object, link: LinkSettings) -> LinkDirectives:
        asked.append(link.name)
        return after(wish(DirectiveKind.MIRROR, ORDERS))

    monkeypatch.setattr(geo_topics, "learn", learn)
    settings = Settings(links=(GEO, other), run=RunSettings(), spark={})
    assert [each.chosen for each in with_chosen(settings, GEO.name).links] == [{"orders"}, set()]
    assert asked == [GEO.name]
