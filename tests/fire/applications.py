"""All applications of the fire: who writes what, and which groups read."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Iterable
from itertools import count

from tests.fire.groups import Follower
from tests.fire.sites import Site
from tests.fire.tape import Place, Witness
from tests.fire.topics import PREFIX, FireTopic, first_topics
from tests.fire.writers import Stream, Transactor

STEADY, MOVING, IDLE = "fire-steady", "fire-moving", "fire-idle"
_PER_S, _MOVES_PER_S = 100.0, 20.0
_MOST_TOPICS, _MOST_PARTITIONS = 14, 6


class Applications:
    """`topics`: with those that are added on the way. `moves`: the one that moves alone. `abroad`:
    the writers that wrote to B. `places`: what groups without members have committed on A."""

    def __init__(self, a: Site, b: Site, *, spark: bool) -> None:
        self.a, self.b = a, b
        self.topics = first_topics(spark=spark)
        self.moves = next(topic for topic in self.topics if topic.kind == "moves")
        self.abroad: set[int] = set()
        self.places: dict[str, dict[Place, int]] = {}
        self.followed: list[Follower] = []
        self._streamed = [t for t in self.topics if not t.transactional and t is not self.moves]
        self._ids = count(1)
        self._streams: list[Stream] = []
        self._transactors: list[Transactor] = []
        self._active: list[Stream | Transactor] = []
        self._steady: Follower | None = None

    def start(self) -> None:
        for topic in self.topics:
            self.a.create(topic)
        self.write(self.a)
        self.write_moves(self.a)
        self._steady = Follower(self.a.bootstrap, STEADY, [PREFIX + "plain", PREFIX + "money"])
        self.follow_moves(self.a)

    def write(self, site: Site) -> None:
        """To all topics but the one that moves alone."""
        stream = Stream(site.bootstrap, self._streamed, id=self._id(site), per_s=_PER_S)
        transactors = [
            Transactor(site.bootstrap, topic, id=self._id(site))
            for topic in self.topics
            if topic.transactional
        ]
        self._streams.append(stream)
        self._transactors += transactors
        self._active = [stream, *transactors]

    def end_writers(self) -> None:
        """Returns once a cluster has all that they wrote, and no transaction is open."""
        for writer in self._active:
            writer.end()
        for topic in self.topics:
            if topic.transactional:
                for site in (self.a, self.b):
                    site.tools.await_transactions(topic.name)

    # The topic that moves alone

    def write_moves(self, site: Site) -> None:
        id = self._id(site)
        self._streams.append(Stream(site.bootstrap, [self.moves], id=id, per_s=_MOVES_PER_S))

    def end_moves(self) -> None:
        for stream in self._streams:
            if stream not in self._active:
                stream.end()

    def follow_moves(self, site: Site) -> None:
        self.followed.append(Follower(site.bootstrap, MOVING, [self.moves.name]))

    def unfollow_moves(self) -> None:
        self.followed[-1].end()

    def end_groups(self) -> None:
        assert self._steady is not None
        self._steady.end()
        self.unfollow_moves()

    # Changes

    def add_topic(self, chance: random.Random) -> str:
        """A topic that is written from now on; another partition if there are many topics."""
        if len(self.topics) >= _MOST_TOPICS:
            return self.add_partition(chance)
        name = f"{PREFIX}new-{len(self.topics)}"
        topic = FireTopic(name, partitions=chance.randint(1, 3))
        self.a.create(topic)
        self.topics.append(topic)
        self._streamed.append(topic)
        return f"{name} with {topic.partitions} partitions"

    def add_partition(self, chance: random.Random) -> str:
        small = [t for t in self.topics if t.partitions < _MOST_PARTITIONS and t is not self.moves]
        if not small:
            return "none: all topics have many"
        topic = chance.choice(small)
        self.a.grow(topic)
        for transactor in self._transactors:
            transactor.grow()
        return f"{topic.name} has {topic.partitions} now"

    def commit_a_place(self, chance: random.Random, at_a: Witness) -> str:
        """A group without members gets a place in the middle of what was read."""
        topic = chance.choice([t.name for t in self.topics if t.keeps_all and t is not self.moves])
        place = {
            at: chance.choice(tape.offsets)
            for at, tape in list(at_a.tapes.items())
            if at[0] == topic and len(tape)
        }
        group = f"{IDLE}-{len(self.places)}"
        self.places[group] = place
        self.a.tools.commit_group(group, place)
        return f"{group} in {topic}"

    # The result

    @property
    def written(self) -> int:
        streams = sum(each.written for each in self._streams)
        return streams + sum(each.written for each in self._transactors)

    def acked(self) -> dict[str, set[int]]:
        """By topic, the numbers of the records that a cluster has surely taken."""
        found: dict[str, set[int]] = defaultdict(set)
        for stream in self._streams:
            for (topic, _), numbers in stream.acked.items():
                found[topic].update(numbers)
        for transactor in self._transactors:
            found[transactor.topic.name] |= transactor.acked()
        return found

    def _id(self, site: Site) -> int:
        id = next(self._ids)
        if site is self.b:
            self.abroad.add(id)
        return id


def numbers_read(followers: Iterable[Follower]) -> array[int]:
    found: array[int] = array("q")
    for each in followers:
        found.extend(each.read)
    return found
