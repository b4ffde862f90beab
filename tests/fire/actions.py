"""Each action of the fire, and what may happen at the same time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fire.applications import Applications
from tests.fire.mirror import FireMirror
from tests.fire.moves import Moves
from tests.fire.sites import Site
from tests.fire.tape import Witness

Act = Callable[[random.Random], str | None]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Action:
    """`field`: of actions with the same one, only one happens at a time; an action without a field
    happens alone."""

    name: str
    field: str
    act: Act
    weight: int = 2


@dataclass(slots=True)
class Step:
    """What was begun together. `seconds`: how long it took."""

    actions: Sequence[Action]
    begun: float
    seconds: float = 0.0
    failures: list[tuple[Action, BaseException]] = field(default_factory=list)

    @property
    def names(self) -> str:
        return ", ".join(action.name for action in self.actions)


def all_actions(
    sites: Mapping[str, Site],
    mirror: FireMirror,
    applications: Applications,
    moves: Moves,
    at_a: Witness,
) -> list[Action]:
    return [
        *(action for site in sites.values() for action in _of_a_site(site)),
        *_of_topics(sites["A"], applications, at_a),
        *_of_the_mirror(mirror),
        *_of_an_operator(mirror, applications),
        # While the rest burns, the topic that moves alone goes to B and back.
        Action("promote a topic, and fail back", "operator", moves.promote_topic),
        Action("fail over a topic, and back", "operator", moves.fail_over_topic),
        Action("promote the link, and fail back", "", moves.promote_link, 1),
    ]


def _of_a_site(site: Site) -> Iterator[Action]:
    name = site.name
    yield Action(f"kill a broker of {name}", name, site.kill_broker, 4)
    yield Action(f"freeze a broker of {name}", name, site.freeze_broker, 4)
    yield Action(f"roll the brokers of {name}", name, site.roll, 1)
    yield Action(f"reassign partitions of {name}", name, site.reassign)
    network = f"network of {name}"
    yield Action(f"stall the network to a broker of {name}", network, site.stall_network)
    yield Action(f"reset the connections to {name}", network, site.reset_network)
    yield Action(f"cut the network to {name}", network, site.partition_network)


def _of_topics(a: Site, applications: Applications, at_a: Witness) -> Iterator[Action]:
    """Topics need all brokers of A, so they have its field."""

    def change_config(chance: random.Random) -> str:
        topic = chance.choice(applications.topics).name
        change = chance.choice(
            [
                {"max.message.bytes": str(chance.randint(1_100_000, 4_000_000))},
                {"compression.type": chance.choice(["producer", "lz4", "zstd"])},
                {"segment.bytes": str(chance.randint(1_048_576, 4_000_000))},
            ]
        )
        a.tools.set_topic_config(topic, change)
        return f"{topic}: {change}"

    yield Action("add a partition", "A", applications.add_partition)
    yield Action("add a topic", "A", applications.add_topic)
    yield Action("change a topic's config", "A", change_config)
    yield Action(
        "commit a group's place",
        "A",
        lambda chance: applications.commit_a_place(chance, at_a),
    )


def _of_the_mirror(mirror: FireMirror) -> Iterator[Action]:
    def killed(leads: bool) -> Act:
        return lambda chance: mirror.kill_driver(chance, leads=leads)

    def frozen(leads: bool) -> Act:
        return lambda chance: mirror.freeze_driver(chance, leads=leads)

    yield Action("kill the leading driver", "mirror", killed(True), 3)
    yield Action("kill the standby", "mirror", killed(False), 1)
    yield Action("end a driver in order", "mirror", mirror.stop_driver)
    yield Action("freeze the leading driver", "mirror", frozen(True), 3)
    yield Action("freeze the standby", "mirror", frozen(False), 1)
    yield Action("kill a lane", "mirror", mirror.kill_lane, 4)
    yield Action("freeze a lane", "mirror", mirror.freeze_lane, 4)


def _of_an_operator(mirror: FireMirror, applications: Applications) -> Iterator[Action]:
    def pause(chance: random.Random) -> str:
        topic = chance.choice(applications.topics).name
        mirror.pause(chance, topic)
        return topic

    # A reload needs both drivers.
    yield Action("reload a changed file", "mirror", mirror.reload, 3)
    yield Action("pause and resume a topic", "operator", pause, 1)
    yield Action("restart partitions", "operator", mirror.restart, 1)
    yield Action("throttle the link", "operator", mirror.throttle, 1)
    yield Action("step down", "operator", mirror.step_down, 1)


class Burning:
    """Takes steps until the time is over. `done`: the steps, in order."""

    def __init__(self, actions: Sequence[Action], seed: int, say: Say) -> None:
        self._actions, self._say = actions, say
        self._chance = random.Random(seed)
        self._pause = threading.Event()
        self.done: list[Step] = []

    def burn(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            step = Step(self._some(), now)
            self.done.append(step)
            self._take(step)
            step.seconds = time.monotonic() - now
            for action, failure in step.failures:
                raise AssertionError(f"{action.name} failed: {failure}") from failure
            # Often the mirror catches up in between, and often it does not.
            self._pause.wait(self._chance.choice([0, self._chance.uniform(0, 3), 6]))

    def _some(self) -> list[Action]:
        """One action, or several of different fields. What was seldom taken comes first."""
        counts = {action.name: 0 for action in self._actions}
        for step in self.done:
            for action in step.actions:
                counts[action.name] += 1
        wanted = self._chance.choice([1, 1, 2, 2, 3])
        chosen: list[Action] = []
        for _ in range(wanted):
            taken = {action.field for action in chosen}
            open_ones = [
                a for a in self._actions if a.field not in taken and (a.field or not chosen)
            ]
            weights = [a.weight / (1 + counts[a.name]) ** 2 for a in open_ones]
            (one,) = self._chance.choices(open_ones, weights)
            chosen.append(one)
            if not one.field:
                break
        return chosen

    def _take(self, step: Step) -> None:
        threads = []
        for action in step.actions:
            chance = random.Random(self._chance.random())
            threads.append(
                threading.Thread(target=self._act, args=(step, action, chance), daemon=True)
            )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _act(self, step: Step, action: Action, chance: random.Random) -> None:
        begun = time.monotonic()
        told: str | None
        try:
            told = action.act(chance)
        except BaseException as failure:
            step.failures.append((action, failure))
            told = "failed"
        seconds = time.monotonic() - begun
        self._say(f"{action.name}{f' ({told})' if told else ''}: {seconds:.0f} s")
