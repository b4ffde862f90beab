"""Topics move to B, live there, and move back, as an operator does it with commands.

The whole link is promoted. Or one topic is: its mirror is promoted, or it fails over while A still
takes records, which B then lacks."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

from tests.fire.applications import Applications
from tests.fire.mirror import LINK, FireMirror
from tests.fire.tape import Place
from tests.fire.topics import number_of

# See "--topic" in docs/how-to/failover.md.
_NOT_ALONE = "left out: the whole link has moved, so no topic can move back alone"


class Moves:
    """`unmirrored`: the numbers of records that only A has, as the commands have saved them.
    `whole`: whether the whole link has moved."""

    def __init__(self, applications: Applications, mirror: FireMirror) -> None:
        self._applications = applications
        self._mirror = mirror
        self._count = 0
        self.whole = False
        self.unmirrored: dict[Place, set[int]] = {}

    def promote_link(self, chance: random.Random) -> str:
        it = self._applications
        self._end(all_topics=True)
        self.whole = True
        self._command("promote")
        it.write(it.b)
        self._live_on_b(chance)
        return self._back(chance, all_topics=True)

    def promote_topic(self, chance: random.Random) -> str:
        if self.whole:
            return _NOT_ALONE
        self._end()
        self._command("promote", *self._topic)
        self._live_on_b(chance)
        return self._back(chance)

    def fail_over_topic(self, chance: random.Random) -> str:
        if self.whole:
            return _NOT_ALONE
        it = self._applications
        it.unfollow_moves()
        self._command("failover", *self._topic)
        self._mirror.wait(chance.uniform(0, 2))
        it.end_moves()
        self._live_on_b(chance)
        return self._back(chance)

    @property
    def _topic(self) -> tuple[str, str]:
        return "--topic", self._applications.moves.name

    def _end(self, *, all_topics: bool = False) -> None:
        it = self._applications
        it.end_moves()
        it.unfollow_moves()
        if all_topics:
            it.end_writers()

    def _live_on_b(self, chance: random.Random) -> None:
        it = self._applications
        it.write_moves(it.b)
        it.follow_moves(it.b)
        self._mirror.wait(chance.uniform(3, 15))

    def _back(self, chance: random.Random, *, all_topics: bool = False) -> str:
        it = self._applications
        scope = () if all_topics else self._topic
        self._count += 1
        saved = self._mirror.directory / f"unmirrored-{self._count}.jsonl"
        self._command("failback", *scope, "--save", saved)
        self._mirror.wait(chance.uniform(2, 10))
        self._end(all_topics=all_topics)
        self._command("failback", *scope, "--turn-round", "--save", f"{saved}.late")
        if all_topics:
            it.write(it.a)
        it.write_moves(it.a)
        it.follow_moves(it.a)
        return f"{self._read(saved)} records were only on A, and are saved"

    def _read(self, saved: Path) -> int:
        lines = saved.read_text().splitlines() if saved.exists() else []
        for line in map(json.loads, lines):
            headers = [(name, base64.b64decode(value)) for name, value in line["headers"]]
            value = line["value"] and base64.b64decode(line["value"])
            place = line["topic"], line["partition"]
            self.unmirrored.setdefault(place, set()).add(number_of(value, headers))
        return len(lines)

    def _command(self, command: str, *options: str | Path) -> None:
        self._mirror.command(command, self._mirror.file, "--link", LINK, "--yes", *options)
