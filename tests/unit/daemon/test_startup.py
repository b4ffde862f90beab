"""Whose clusters a run waits for at its start, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from causeway.daemon import Sides, startup
from causeway.daemon.startup import await_clusters
from causeway.errors import UnreachableError


class Cluster:
    """`answers`: None while nobody knows."""

    def __init__(self, answers: bool | None) -> None:
        self._answers = answers
        self._closed = threading.Event()

    def bootstrap_check(self) -> None:
        if self._answers is None:
            assert self._closed.wait(30)
        if not self._answers:
            raise UnreachableError("connect", "it", "no broker answered")

    def close(self) -> None:
        self._closed.set()


HERE, AWAY = Cluster(True), Cluster(False)


def link(source: Cluster, target: Cluster) -> Sides:
    a, b = cast(Any, source), cast(Any, target)
    return Sides(source=a, target=b, source_admin=a, target_admin=b)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(startup, "_LATE_S", 0.05)
    found = Cluster(None)
    yield found
    found.close()


def test_links_whose_clusters_answer_wait_for_no_others(silent: Cluster) -> None:
    for other in (AWAY, silent):
        links = [link(HERE, HERE), link(HERE, other)]
        assert await_clusters(links, threading.Event(), every=False)


@pytest.mark.parametrize(
    ("links", "every"),
    [
        ([link(HERE, AWAY)], False),
        ([link(HERE, AWAY), link(AWAY, HERE)], False),
        ([link(HERE, HERE), link(HERE, AWAY)], True),
    ],
)
def test_a_run_that_could_not_do_its_work_ends(links: list[Sides], every: bool) -> None:
    with pytest.raises(UnreachableError):
        await_clusters(links, threading.Event(), every=every)


def test_who_is_to_end_waits_for_none(silent: Cluster) -> None:
    stop = threading.Event()
    stop.set()
    assert not await_clusters([link(HERE, silent)], stop, every=False)
    assert silent._closed.is_set()
