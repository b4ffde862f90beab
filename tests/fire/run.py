"""A fire from its start to its result."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.fire.actions import Burning, Say, all_actions
from tests.fire.applications import MOVING, STEADY, Applications, numbers_read
from tests.fire.checker import (
    batches_of_doubled,
    compare,
    compare_acked,
    compare_again,
    compare_group,
    is_sent_again,
    newest,
    wanted_of,
)
from tests.fire.mirror import FireMirror
from tests.fire.moves import Moves
from tests.fire.pauses import Pauses
from tests.fire.sites import Site
from tests.fire.table import table
from tests.fire.tape import Place, Witness
from tests.harness.kafka.cluster import start_all
from tests.harness.waiting import await_until

_START_S = 600.0
_END_S = 600.0
_GROUP_S = 90.0
_PROGRESS_S = 60.0
# Six brokers and two drivers share the machine with the applications.
_ENVIRONMENT = {
    "KAFKA_HEAP_OPTS": "-Xms96m -Xmx320m",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",
}


@dataclass(slots=True)
class Result:
    """`faults`: all that is not exact, each with its place. `report`: Markdown."""

    faults: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)


class Fire:
    def __init__(self, minutes: float, seed: int, say: Say, *, spark: bool) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._minutes, self._seed, self._say = minutes, seed, say
        self.sites = {name: Site(name) for name in "AB"}
        self.a, self.b = self.sites["A"], self.sites["B"]
        self.directory = Path(tempfile.mkdtemp(prefix="causeway-fire-"))
        self.applications = Applications(self.a, self.b, spark=spark)
        topics = self.applications.topics
        self.at_a = Witness(self.a.bootstrap, topics, self.applications.abroad, origin=True)
        self.at_b = Witness(self.b.bootstrap, topics, origin=False)
        self.pauses = Pauses(self.at_a, self.at_b, {self.applications.moves.name})
        self.mirror = FireMirror(self.a, self.b, self.directory, spark=spark)
        self.moves = Moves(self.applications, self.mirror)
        actions = all_actions(self.sites, self.mirror, self.applications, self.moves, self.at_a)
        self._actions = actions
        self.burning = Burning(actions, seed, say)
        self._over = threading.Event()
        self._sent_again = 0  # records that an application wrote twice

    def run(self) -> Result:
        result = Result()
        with ExitStack() as stack:
            for site in self.sites.values():
                stack.callback(site.destroy)
            stack.callback(self.mirror.kill)
            stack.callback(self._over.set)
            self._start()
            threading.Thread(target=self._progress, daemon=True).start()
            try:
                self.burning.burn(self._minutes * 60)
                self._say(f"the fire is over after {len(self.burning.done)} steps; all settles")
                result.faults += self._settle()
                result.faults += self._checked()
            except AssertionError as failure:
                self.mirror.add_notes(failure)
                result.faults += [str(failure), *failure.__notes__]
            result.report = list(self._report())
        if not result.faults:
            shutil.rmtree(self.directory)
        return result

    def _start(self) -> None:
        self._say(f"starts two clusters; seed {self._seed}; logs in {self.directory}")
        start_all([site.cluster for site in self.sites.values()])
        for site in self.sites.values():
            site.await_healthy()
        self.applications.start()
        self.mirror.start()
        for witness in (self.at_a, self.at_b):
            witness.start()
        await_until(self._is_mirrored, _START_S, "a record of each topic is mirrored", 1)
        self.mirror.add_standby()
        self.pauses.start()
        self._say("all topics are mirrored: the fire begins")

    def _is_mirrored(self) -> bool:
        self.at_a.check()
        self.at_b.check()
        return all(len(self.at_b.tape((topic.name, 0))) > 0 for topic in self.applications.topics)

    def _progress(self) -> None:
        while not self._over.wait(_PROGRESS_S):
            behind = self.pauses.behind()
            longest = max((pause.seconds for pause in self.pauses.found), default=0.0)
            worst = ", ".join(f"{t}-{p} for {s:.0f} s" for (t, p), s in behind[:3])
            self._say(
                f"{self.applications.written:,} records written, {_count(self.at_b):,} mirrored; "
                f"behind: {worst or 'nothing'}; longest pause so far {longest:.0f} s"
            )
            for witness in (self.at_a, self.at_b):
                if witness.failure is not None:
                    self._say(f"an independent reader failed: {witness.failure}")

    # The end

    def _settle(self) -> Iterator[str]:
        """Everything works again, writers end, and the mirror catches up."""
        for step in (
            *(site.await_healthy for site in self.sites.values()),
            self.applications.end_writers,
            self.applications.end_moves,
            self._await_caught_up,
            self.applications.end_groups,
        ):
            try:
                step()
            except AssertionError as failure:
                yield str(failure)
        self.pauses.end()

    def _await_caught_up(self) -> None:
        await_until(self._is_read, _END_S, "the independent reader is at the end of A", 0.5)
        try:
            await_until(lambda: not self._behind(), _END_S, "the mirror catches up", 0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._behind()}") from error

    def _is_read(self) -> bool:
        self.at_a.check()
        self.at_b.check()
        return all(
            self.at_a.tape((topic.name, partition)).next >= end
            for topic in self.applications.topics
            for partition, end in self.a.tools.offsets(topic.name, read_committed=True).items()
        )

    def _behind(self) -> dict[Place, tuple[int, int]]:
        self.at_b.check()
        found = {}
        for place, tape in self.at_a.tapes.items():
            wanted = wanted_of(tape, self.moves.unmirrored.get(place, set())).numbers
            there = self.at_b.tape(place).numbers
            if (wanted[-1] if wanted else None) != (there[-1] if there else None):
                found[place] = len(wanted), len(there)
        return found

    def _checked(self) -> Iterator[str]:
        acked = self.applications.acked()
        for topic in self.applications.topics:
            logs = [broker.directory / "data" for broker in self.a.cluster.brokers.values()]
            doubled = batches_of_doubled(topic.name, self.at_a.tapes, logs)
            self._sent_again += sum(map(is_sent_again, doubled.values()))
            yield from compare_acked(topic.name, acked[topic.name], self.at_a, doubled)
            for place in sorted(p for p in self.at_a.tapes if p[0] == topic.name):
                wanted = wanted_of(self.at_a.tape(place), self.moves.unmirrored.get(place, set()))
                yield from compare(topic, place, wanted, self.at_b.tape(place))
            if topic.keeps_all:
                # Applications roll back transactions on B, too, once they have moved there.
                for level in (True, *([] if self.moves.whole and topic.transactional else [False])):
                    yield from compare_again(topic, self.b.tools, self.at_b, read_committed=level)
            ends = [site.tools.offsets(topic.name) for site in (self.a, self.b)]
            if topic.kind == "preserved" and ends[0] != ends[1]:
                yield f"{topic.name}: the logs end at {ends[0]} on A, at {ends[1]} on B"
            if topic.kind == "compacted" and newest(topic, self.a.tools) != newest(
                topic, self.b.tools
            ):
                yield f"{topic.name}: the last values of the keys differ"
        yield from self._checked_groups()
        yield from self._checked_ends()

    def _checked_groups(self) -> Iterator[str]:
        groups = [STEADY, MOVING, *self.applications.places]
        for group in groups:
            try:
                self._await_right(group)
            except AssertionError:
                yield from self._wrong(group)
        yield from self._skipped()

    def _await_right(self, group: str) -> None:
        await_until(lambda: not self._wrong(group), _GROUP_S, f"the place of {group}", 2)

    def _skipped(self) -> Iterator[str]:
        """Records that the group that moved has not read, on any side."""
        read = set(numbers_read(self.applications.followed))
        for place, offset in self.a.tools.group_offsets(MOVING).items():
            wanted = wanted_of(self.at_a.tape(place), self.moves.unmirrored.get(place, set()))
            before = bisect_left(wanted.offsets, offset)
            if skipped := [n for n in wanted.numbers[:before] if n not in read]:
                yield f"group {MOVING}: {place} skipped {len(skipped)}, numbers {skipped[:5]}"

    def _wrong(self, group: str) -> list[str]:
        at_a, at_b = (site.tools.group_offsets(group) for site in (self.a, self.b))
        topics = {topic.name: topic for topic in self.applications.topics}
        found = []
        for place, offset in at_a.items():
            tape = self.at_a.tape(place)
            wanted = wanted_of(tape, self.moves.unmirrored.get(place, set()))
            logs = wanted, self.at_b.tape(place)
            there = at_b.get(place)
            wrong = compare_group(topics[place[0]], group, offset, there, place, logs)
            # A group from before the last reverse link's beginning keeps its older offset on B.
            if not (self.moves.whole and wrong and "repeats" in wrong):
                found.append(wrong)
        return [wrong for wrong in found if wrong]

    def _checked_ends(self) -> Iterator[str]:
        """Drivers end in good order, and none has met an internal error."""
        try:
            self.mirror.stop()
        except AssertionError as failure:
            yield str(failure)
        for log in sorted(self.directory.glob("run-*.log")):
            if "Traceback" in log.read_text(errors="replace"):
                yield f"{log} has a traceback"

    def _report(self) -> Iterator[str]:
        minutes = f"{self._minutes:g} min"
        kinds = len(self.applications.topics)
        yield (
            f"{minutes}, seed {self._seed}: {len(self.burning.done)} steps, "
            f"{self.applications.written:,} records, {kinds} topics with {len(self.at_a.tapes)} "
            f"partitions, {2 + len(self.applications.places)} groups"
        )
        if self._sent_again:
            yield f"{self._sent_again} records are twice on both sides: librdkafka sent them again"
        yield ""
        yield from table(self._actions, self.burning.done, self.pauses.found)


def _count(witness: Witness) -> int:
    return sum(len(tape) for tape in list(witness.tapes.values()))


def fire(minutes: float, seed: int, say: Say, *, spark: bool = True) -> Result:
    """`spark`: with a topic whose transform needs Spark."""
    return Fire(minutes, seed, say, spark=spark).run()
