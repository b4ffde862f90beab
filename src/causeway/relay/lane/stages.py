"""A lane's stages, one for each transform of its flows, and their direct worker."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from causeway.errors import CausewayError
from causeway.relay.lane.direct import DirectWorker
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.second_stage import FirstStage
from causeway.relay.lane.stage import Stage
from causeway.relay.messages import StageEnded, StageSpec, StageWanted
from causeway.transform import path_of

SECOND = "+"  # after the key of a stage: its second stage
OnHung = Callable[[object], None]


class LaneStages:
    """All of a lane's, made as flows need them. `here`: its machine's address, as the driver's
    machine knows it. Where they are one machine the listeners are Unix sockets, on Linux ones that
    leave no file."""

    def __init__(
        self, here: str, secret: str, helpers: Helpers, selector: selectors.BaseSelector
    ) -> None:
        self._here = here
        self._secret = secret
        self._helpers = helpers
        self._selector = selector
        self._specs: dict[str, StageSpec] = {}
        self._stages: dict[str, Stage] = {}
        self._direct = DirectWorker(secret, selector)

    def define(self, specs: Iterable[StageSpec]) -> None:
        self._specs.update((spec.key, spec) for spec in specs)

    def get(self, key: str) -> Stage:
        """Raises CausewayError if the driver has not announced this stage."""
        if key not in self._stages:
            if key not in self._specs:
                raise CausewayError("transform", key, "the driver has not told what it is")
            self._stages[key] = self._make(self._specs[key])
        return self._stages[key]

    def _make(self, spec: StageSpec, on_hung: OnHung | None = None) -> Stage:
        """With `on_hung` the second stage of a transform; see second_stage.py."""
        listener, address = self._listen()
        given = listener, address, self._secret, self._helpers, self._selector, self._direct
        if on_hung is not None:
            return Stage(spec, *given, on_hung=on_hung)
        second = spec.replace(key=f"{spec.key}{SECOND}", shortcut=None, late=False)
        return FirstStage(spec, *given, make_second=partial(self._make, second))

    @property
    def _all(self) -> Iterator[Stage]:
        return (each for stage in self._stages.values() for each in stage.stages)

    def ended(self, message: StageEnded) -> None:
        for stage in self._all:
            if stage.spec.key == message.key:
                stage.ended(message.attempt, message.reason, threw=message.threw)

    def keep(self, keys: Iterable[str]) -> None:
        """Close those that no flow needs any more."""
        for key in self._stages.keys() - set(keys):
            self._stages.pop(key).close()

    @property
    def wanted(self) -> tuple[StageWanted, ...]:
        return tuple(
            StageWanted(
                key=stage.spec.key, address=stage.address, waiting=stage.waiting, hung=stage.hung
            )
            for stage in self._all
            if stage.wanted
        )

    @property
    def size(self) -> int:
        """Bytes of records that wait for a stage or are in one."""
        return sum(stage.size for stage in self._stages.values())

    def turn(self, now: float) -> None:
        for stage in self._stages.values():
            stage.turn(now)
        self._direct.turn(now)

    def close(self) -> None:
        self.keep(())
        self._direct.close()

    def _listen(self) -> tuple[socket.socket, str]:
        if self._here.startswith("127.") and sys.platform == "linux":
            address = f"@causeway-stage-{os.urandom(12).hex()}"
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path_of(address))
        else:
            family = socket.AF_INET6 if ":" in self._here else socket.AF_INET
            listener = socket.create_server((self._here, 0), family=family)
            address = f"{self._here}:{listener.getsockname()[1]}"
        listener.listen()
        listener.setblocking(False)
        return listener, address
