"""From a source offset to the exact target offset, for as many as are asked at once.

Nearly all come from the offset maps in memory. Where a map says only in which span an offset lies,
the logs are read, once for all offsets of that span, and the answer is remembered for as long as
somebody keeps asking for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from causeway.daemon.discovery import Sides
from causeway.daemon.registry import Mirrored, Registry
from causeway.errors import CausewayError
from causeway.model import TopicPartition
from causeway.relay import lookup
from causeway.relay.lookup import Sought
from causeway.relay.offset_map import Span
from causeway.wire.offsets import EARLIEST, OffsetAt

_LOOKUPS = 4  # at once

Wanted = Mapping[TopicPartition, Collection[int]]


class Place(NamedTuple):
    """Where the first relayed record from a source offset on lies, or will lie. `note` says why it
    is not exact: `target` is then at or before the true place, or None where nothing is known.
    `mirrored`: that record is known to be there; else `target` is the end of the mirror, as far as
    we know, and may be behind it."""

    target: int | None
    note: str | None = None
    mirrored: bool = True

    @property
    def certain(self) -> bool:
        return self.note is None and self.mirrored


class Translator:
    """Of one link. Not thread-safe. `fallbacks` counts the answers that were not exact."""

    def __init__(self, sides: Sides, registry: Registry, *, read_committed: bool) -> None:
        self._sides = sides
        self._registry = registry
        self._read_committed = read_committed
        self._known: dict[TopicPartition, dict[int, tuple[int, int]]] = {}  # by producer id
        self.fallbacks = 0

    def translate(self, wanted: Wanted) -> dict[TopicPartition, dict[int, Place]]:
        """A place for each source offset in `wanted`; partitions that are not mirrored one to one
        are missing. Raises CausewayError."""
        mirrored = {m.source: m for m in self._registry.mirrored() if m.source in wanted}
        self._trim(mirrored)
        found: dict[TopicPartition, dict[int, Place]] = {}
        spans: dict[tuple[TopicPartition, Span], list[int]] = defaultdict(list)
        for at, partition in mirrored.items():
            places = self._registry.place(at, wanted[at])
            if places is None:
                continue
            found[at] = {}
            remembered = self._remembered(partition, wanted[at])
            for offset, place in sorted(places.items()):
                if isinstance(place, int):
                    known = offset < partition.outlet.pair.source
                    found[at][offset] = Place(place, mirrored=known)
                elif offset in remembered:
                    found[at][offset] = Place(remembered[offset])
                elif place is None:
                    found[at][offset] = self._fall_back(
                        None, "it lies before all that this mirror remembers"
                    )
                else:
                    spans[at, place].append(offset)
        self._look_up(mirrored, spans, found)
        return self._within(mirrored, found)

    def _remembered(self, partition: Mirrored, offsets: Collection[int]) -> dict[int, int]:
        """And forgets what nobody asks for any more."""
        producer_id = partition.outlet.producer_id
        known = self._known.get(partition.source, {})
        kept = {o: known[o] for o in offsets if o in known and known[o][0] == producer_id}
        self._known[partition.source] = kept
        return {offset: target for offset, (_, target) in kept.items()}

    def _look_up(
        self,
        mirrored: Mapping[TopicPartition, Mirrored],
        spans: Mapping[tuple[TopicPartition, Span], list[int]],
        found: dict[TopicPartition, dict[int, Place]],
    ) -> None:
        if not spans:
            return
        with ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="look up") as pool:
            answers = pool.map(
                lambda item: self._find(mirrored[item[0][0]], item[0][1], item[1]), spans.items()
            )
            for ((at, span), offsets), answer in zip(spans.items(), answers, strict=True):
                producer_id = mirrored[at].outlet.producer_id
                for offset in offsets:
                    if isinstance(answer, CausewayError):
                        found[at][offset] = self._fall_back(
                            None, f"its place cannot be looked up: {answer}"
                        )
                    elif offset in answer:
                        found[at][offset] = Place(answer[offset])
                        if mirrored[at].outlet.exclusive:
                            self._known[at][offset] = producer_id, answer[offset]
                    else:
                        found[at][offset] = self._fall_back(
                            span.start.target, "the logs no longer tell its exact place"
                        )

    def _find(
        self, partition: Mirrored, span: Span, offsets: list[int]
    ) -> dict[int, int] | CausewayError:
        sought = Sought(
            source=partition.source,
            target=partition.target,
            producer_id=partition.outlet.producer_id,
            read_committed=self._read_committed,
            span=span,
            offsets=offsets,
        )
        try:
            return lookup.find(sought, self._sides.source, self._sides.target)
        except CausewayError as error:
            return error  # of one partition, on which the others do not wait

    def _fall_back(self, target: int | None, note: str) -> Place:
        self.fallbacks += 1
        return Place(target, note)

    def _trim(self, mirrored: Iterable[TopicPartition]) -> None:
        starts = self._sides.source.list_offsets(list(mirrored), EARLIEST)
        self._registry.trim(
            {at: start.offset for at, start in starts.items() if isinstance(start, OffsetAt)}
        )

    def _within(
        self,
        mirrored: Mapping[TopicPartition, Mirrored],
        found: dict[TopicPartition, dict[int, Place]],
    ) -> dict[TopicPartition, dict[int, Place]]:
        """No place lies before the target's log start: a consumer sent there would be out of range,
        and might begin anew at the end."""
        starts = self._sides.target.list_offsets([mirrored[at].target for at in found], EARLIEST)
        for at, places in found.items():
            start = starts.get(mirrored[at].target)
            if not isinstance(start, OffsetAt):
                continue
            for offset, place in places.items():
                if place.target is not None and place.target < start.offset:
                    places[offset] = place._replace(target=start.offset)
        return found
