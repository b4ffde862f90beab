"""Who hears of a link's partitions what their lanes report, and which of them lost their lane."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from causeway.daemon.lanes.tracked import Key, Standing

Sink = Callable[[Sequence[Standing]], None]
OnWaiting = Callable[[Collection[Key]], None]


class Sinks:
    """By link. Not thread-safe."""

    def __init__(self) -> None:
        self._sinks: dict[str, tuple[Sink, OnWaiting]] = {}

    def attach(self, link: str, sink: Sink, on_waiting: OnWaiting) -> None:
        self._sinks[link] = (sink, on_waiting)

    def tell(self, standings: Sequence[Standing], lost: Collection[Key]) -> None:
        """Each link of its own; what nobody is attached for is dropped."""
        by_link: dict[str, list[Standing]] = {}
        for standing in standings:
            by_link.setdefault(standing.report.link, []).append(standing)
        waiting: dict[str, list[Key]] = {}
        for key in lost:
            waiting.setdefault(key[0], []).append(key)
        for link, heard in by_link.items():
            if link in self._sinks:
                self._sinks[link][0](heard)
        for link, keys in waiting.items():
            if link in self._sinks:
                self._sinks[link][1](keys)
