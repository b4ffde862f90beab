"""What is proven before a mirror ends."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from causeway.config.settings import LinkSettings
from causeway.control.directives import THE_LINK, Scope
from causeway.errors import PartitionsFailedError
from causeway.model import State, TopicPartition
from causeway.operate.moves import last_groups
from causeway.operate.moves import promote as promoting
from causeway.operate.moves.promote import Lagging, Promoted, _Promotion
from tests.harness.daemon import link
from tests.unit.daemon.test_rows import row
from tests.unit.operate.test_failover import settings_of

AT = TopicPartition("orders", 0)
LATE = Lagging(at=AT, position=10, end=11)


def test_what_was_promoted_before_another_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Move:
        def __init__(self, each: LinkSettings, *_: object, **__: object) -> None:
            self._name = each.name

        def run(self, *_: object) -> Promoted:
            if self._name == "A->B":
                raise PartitionsFailedError("promote", "A->B", "lags", remedy="try again")
            fields = {"link": self._name, "source": "C", "target": "B", "scope": THE_LINK}
            return Promoted(changed=True, dry_run=False, cuts={}, **cast(Any, fields))

    monkeypatch.setattr(promoting, "clusters", lambda: nullcontext(None))
    monkeypatch.setattr(promoting, "choose", lambda settings, *_: settings.links)
    monkeypatch.setattr(promoting, "_Promotion", Move)
    with pytest.raises(PartitionsFailedError, match=r"C->B: promoted by now; try again"):
        promoting.promote(settings_of("C->B", "A->B"))
    with pytest.raises(PartitionsFailedError, match=r"lags \(try again"):
        promoting.promote(settings_of("A->B"))


@pytest.mark.parametrize("looks", [[()], [(LATE,)], [(), (LATE,)]])
def test_a_mirror_goes_on_where_something_has_come_before_or_while_groups_are_placed(
    monkeypatch: pytest.MonkeyPatch, looks: list[tuple[Lagging, ...]]
) -> None:
    left = [*looks, *([()] if looks == [()] else [])]
    taken_back: list[float] = []
    ending = SimpleNamespace(
        read_on=lambda: None, progress=dict, contents=None, let_go=taken_back.append
    )
    monkeypatch.setattr(last_groups, "sync", lambda *_: ())
    promotion: Any = _Promotion.__new__(_Promotion)
    fields = {
        "_link": link("127.0.0.1:1", "127.0.0.1:2", ".*"),
        "_scope": Scope("orders"),
        "_sides": None,
        "_ending": ending,
        "_say": lambda _: None,
        "_mirrored": dict,
        "_lagging": lambda _: left.pop(0),
    }
    for name, value in fields.items():
        setattr(promotion, name, value)
    if looks == [()]:
        assert promotion._prove(7.0) == ()
        assert taken_back == []
        return
    with pytest.raises(PartitionsFailedError, match="mirrored up to 10 of 11"):
        promotion._prove(7.0)
    assert taken_back == [7.0]


@pytest.mark.parametrize("by_file", [True, False])
def test_who_pauses_what_lags_is_said(*, by_file: bool) -> None:
    """And what to do about it: it never catches up while it is paused."""
    anna = "paused by anna@ops since 2026-01-31T12:00:00Z"
    begun = row().progress.replace(position=10, state=State.PAUSED, reason=anna)
    file = {"records_paused": True, "places": {"causeway.paused": "mirror.yaml:7"}}
    mirror = link("127.0.0.1:1", "127.0.0.1:2", ".*", more=file if by_file else {})
    promotion: Any = _Promotion.__new__(_Promotion)
    promotion._link = mirror
    admin = SimpleNamespace(log_ends=lambda places: dict.fromkeys(places, 11))
    promotion._sides = SimpleNamespace(source_admin=admin)
    promotion._ending = SimpleNamespace(contents=SimpleNamespace(partitions={AT: begun}))
    orders = SimpleNamespace(source="orders", partitions=2)
    lagging = promotion._lagging({"orders": orders})
    file_says = "paused by the file: mirror.yaml:7"
    assert [str(each) for each in lagging] == [
        f"orders-0: mirrored up to 10 of 11, {file_says if by_file else anna}",
        f"orders-1: not begun{f', {file_says}' if by_file else ''}",
    ]
    refused = promoting._refusal(mirror, Scope("orders"), lagging)
    assert str(refused.remedy).startswith("take the pause back, let it catch up, and try again")
    assert "stop the producers" in str(promoting._refusal(mirror, THE_LINK, (LATE,)).remedy)
