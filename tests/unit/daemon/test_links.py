"""What becomes of each link if another file takes the place of the one in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from causeway import renames
from causeway.config import LinkSettings, Settings, TreatmentSettings
from causeway.config.reading import clients_of
from causeway.control import Transforms
from causeway.daemon import links as module
from causeway.daemon.clients import Clients
from causeway.daemon.lanes import Fleet
from causeway.daemon.link_parts import LinkWork
from causeway.daemon.links import Links
from causeway.daemon.partitions import RunOptions, Wish, treatments_of
from causeway.daemon.staging import Staging
from causeway.relay import Clusters, Renewed, Throttle
from tests.builders.fleet import Lane
from tests.builders.settings import client_settings, link, settings_of


class FakeLink:
    """`did`: what it was told, in order."""

    made: list[FakeLink]

    def __init__(self, work: LinkWork, *_: object) -> None:
        self.work, self.settings = work, work.link
        self.did: list[str] = []
        self.has_ended = self.changing = False
        self.made.append(self)

    def start(self) -> None:
        self.did.append("start")

    def retire(self) -> None:
        self.did.append("retire")

    def change(self, work: LinkWork) -> None:
        self.did.append("change")
        self.work = work


class Run:
    def __init__(self, settings: Settings) -> None:
        self.clients = clients = Clients()
        for role, each in clients_of(settings).items():
            clients.open(role, each)
        treatments = treatments_of(settings.links)
        self.fleet = fleet = Fleet(settings.run, clients.by_key, local=True, treatments=treatments)
        self.lane = Lane(fleet, 0).connect()
        self.options = RunOptions(settings=settings.run, wish=Wish(adopt=True))
        staging = Staging((), fleet)
        self.links = Links(settings, self.options, clients, fleet, staging, made(settings))
        self.links.start()

    def apply(self, *links: LinkSettings, **run: Any) -> None:
        settings = settings_of(*links, **run)
        options = replace(self.options, settings=settings.run)
        self.links.apply(settings, options, made(settings))

    def skipped(self) -> dict[str, str]:
        """The header by which a lane leaves out records that it begins to relay now, by link."""
        sent = [m for m in self.lane.sent if isinstance(m, Clusters | Renewed)]
        known = next(m.treatments for m in reversed(sent) if m.treatments is not None)
        return {name: step.settings["name"] for name, (step,) in known.items()}

    def known(self) -> set[str]:
        """The keys of the clusters that a lane knows."""
        found: set[str] = set()
        for message in self.lane.sent:
            if isinstance(message, Clusters | Renewed):
                found |= message.clusters.keys()
            if isinstance(message, Renewed):
                found -= set(message.gone)
        return found

    def limited(self) -> bool:
        """Whether the lane has a limit."""
        return any([m for m in self.lane.sent if isinstance(m, Throttle)][-1].rates)


def made(settings: Settings) -> dict[str, Transforms]:
    return {each.name: Transforms(each, {}) for each in settings.links}


def did() -> list[tuple[str, list[str]]]:
    return [(each.settings.name, each.did) for each in FakeLink.made]


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLink.made = []
    monkeypatch.setattr(module, "LinkDriver", cast(Any, FakeLink))


A_B, X_C = link("A", "B"), link("X", "C")


def test_only_a_link_with_other_settings_changes() -> None:
    run = Run(settings_of(A_B, X_C))
    run.apply(A_B, X_C)
    run.apply(replace(A_B, places={"topics": "A->B.topics (line 9)"}), X_C)
    assert did() == [("A->B", ["start"]), ("X->C", ["start"])]
    run.apply(link("A", "B", topics="orders"), X_C)
    assert did() == [("A->B", ["start", "change"]), ("X->C", ["start"])]
    run.apply(link("A", "B", topics="orders"), X_C, progress_interval_s=7.0)
    assert did() == [("A->B", ["start", "change", "change"]), ("X->C", ["start", "change"])]


def test_a_rule_for_names_changes_the_link_and_does_not_restart_it() -> None:
    run = Run(settings_of(A_B))
    run.apply(replace(A_B, policy=replace(A_B.policy, renames=renames.parse("orders => sales"))))
    assert did() == [("A->B", ["start", "change"])]


def test_another_address_restarts_the_link_once_the_earlier_one_has_ended() -> None:
    run = Run(settings_of(A_B, X_C))
    elsewhere = link(client_settings("A", bootstrap=(("elsewhere", 1),)), "B")
    run.apply(elsewhere, X_C)
    assert did() == [("A->B", ["start", "retire"]), ("X->C", ["start"])]
    assert not run.links.settled
    run.links.tick()
    assert len(FakeLink.made) == 2, "the earlier one has not ended"
    FakeLink.made[0].has_ended = True
    run.links.tick()
    assert did()[2:] == [("A->B", ["start"])]
    assert run.links.settled
    assert FakeLink.made[0].work.run.wish.adopt
    assert not FakeLink.made[2].work.run.wish.adopt, "--adopt is for the file of the start"


@pytest.mark.parametrize(
    "changed",
    [
        {"delivery": "at-least-once"},
        {"partitioning": "by-key"},
        {"policy": replace(A_B.policy, separator="-")},
    ],
    ids=str,
)
def test_what_concerns_all_partitions_restarts_the_link(changed: dict[str, Any]) -> None:
    run = Run(settings_of(A_B, X_C))
    run.apply(replace(A_B, **changed), X_C)
    assert did() == [("A->B", ["start", "retire"]), ("X->C", ["start"])]


def skipping(header: str) -> LinkSettings:
    """A->B, which leaves out records with that header."""
    decides = {"name": header}
    step = TreatmentSettings(kind="skip-header", decides=decides, text="leaves out records")
    return replace(A_B, treatments=(step,))


def test_a_link_keeps_its_treatments_until_it_has_ended() -> None:
    """Another lane may still get one of its partitions, with the claim for these treatments."""
    run = Run(settings_of(skipping("old"), X_C))
    run.apply(skipping("new"), X_C)
    assert run.skipped() == {"A->B": "old"}
    run.apply(X_C)
    assert run.skipped() == {"A->B": "old"}
    run.apply(skipping("newest"), X_C)
    assert run.skipped() == {"A->B": "old"}
    FakeLink.made[0].has_ended = True
    run.links.tick()
    assert run.skipped() == {"A->B": "newest"}
    assert did()[2:] == [("A->B", ["start"])]
    run.apply(X_C)
    FakeLink.made[2].has_ended = True
    run.links.tick()
    assert run.skipped() == {}


def test_a_lane_knows_the_treatments_of_a_new_link() -> None:
    run = Run(settings_of(X_C))
    run.apply(skipping("new"), X_C)
    assert run.skipped() == {"A->B": "new"}


def test_links_come_and_go() -> None:
    run = Run(settings_of(A_B))
    run.apply(A_B, X_C)
    assert did() == [("A->B", ["start"]), ("X->C", ["start"])]
    run.apply(X_C)
    assert did() == [("A->B", ["start", "retire"]), ("X->C", ["start"])]
    assert [each.settings.name for each in run.links.running] == ["X->C"]
    assert run.links.sides.keys() == {"X->C"}


def test_a_link_has_the_open_client_of_another_one_of_its_source() -> None:
    run = Run(settings_of(A_B, link("A", "C")))
    run.apply(A_B, link("A", client_settings("C", bootstrap=(("elsewhere", 1),))))
    assert did() == [("A->B", ["start", "change"]), ("A->C", ["start", "retire"])]
    (sharer,) = FakeLink.made[0].work.sharers
    assert sharer.target is run.links.sides["A->C"].target_admin
    assert run.links.unsettled == ("A->C",)


def test_clients_without_a_role_are_closed_once_no_link_uses_them() -> None:
    run = Run(settings_of(A_B, link("A", "C")))
    before = run.links.sides["A->C"].target
    run.apply(A_B, link("A", client_settings("C", bootstrap=(("elsewhere", 1),))))
    first, second = FakeLink.made
    second.has_ended = first.changing = True
    run.links.tick()
    run.links.tick()
    assert before.settings in run.clients.by_key.values(), "the other link may still ask it"
    first.changing = False
    run.links.tick()
    assert before.settings not in run.clients.by_key.values()


def test_lanes_forget_the_clients_and_limits_of_a_link_that_has_ended() -> None:
    run = Run(settings_of(A_B, X_C))
    run.fleet.attach("X->C", lambda _: None, lambda _: None)
    run.fleet.limit("X->C", {None: 100})
    assert {key[0] for key in run.known()} == {"A", "B", "X", "C"}
    run.apply(A_B)
    assert {key[0] for key in run.known()} == {"A", "B", "X", "C"}, "it has not ended"
    assert run.limited()
    FakeLink.made[1].has_ended = True
    run.links.tick()
    assert not run.limited()
    run.links.tick()
    assert {key[0] for key in run.known()} == {"A", "B"}
    first = Lane(run.fleet, 1).connect().sent[0]
    assert isinstance(first, Clusters)
    assert {key[0] for key in first.clusters} == {"A", "B"}


def test_a_client_of_heartbeats_is_closed_though_no_link_ends() -> None:
    run = Run(settings_of(A_B))
    run.clients.open(("B->C", "heartbeats"), client_settings("C"))
    run.apply(A_B)
    run.links.tick()
    assert {each.alias for each in run.clients.by_key.values()} == {"A", "B"}


def test_a_link_of_the_same_source_knows_of_a_new_one() -> None:
    """Its fences may be of the same topics."""
    run = Run(settings_of(A_B))
    run.apply(A_B, link("A", "C"))
    assert did() == [("A->B", ["start", "change"]), ("A->C", ["start"])]
    assert [each.link.name for each in FakeLink.made[0].work.sharers] == ["A->C"]
