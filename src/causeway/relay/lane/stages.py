"""A lane's stages, one for each transform of its flows, and their direct worker."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from causeway.errors import CausewayError
from causeway.relay import messages
from causeway.relay.lane.direct import DirectWorker
from causeway.relay.lane.helpers import Helpers
from causeway.relay.lane.stage import Stage
from causeway.transform import path_of

ASIDE = "+"  # behind the key of a stage: its second stage
OnHung = Callable[[object], None]


class Stages:
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
        self._specs: dict[str, messages.Stage] = {}
        self._stages: dict[str, Stage] = {}
        self._direct = DirectWorker(secret, selector)

    def define(self, specs: Iterable[messages.Stage]) -> None:
        self._specs.update((spec.key, spec) for spec in specs)

    def get(self, key: str) -> Stage:
        """Raises CausewayError where nobody has told of such a stage."""
        if key not in self._stages:
            if key not in self._specs:
                raise CausewayError("transform", key, "the driver has not told what it is")
            self._stages[key] = self._make(self._specs[key])
        return self._stages[key]

    def _make(self, spec: messages.Stage, on_hung: OnHung | None = None) -> Stage:
        """With `on_hung` the second stage of a transform; see aside.py."""
        listener, address = self._listen()
        given = listener, address, self._secret, self._helpers, self._selector, self._direct
        if on_hung is not None:
            return Stage(spec, *given, on_hung=on_hung)
        aside = spec.replace(key=f"{spec.key}{ASIDE}", shortcut=None, late=False)
        return Stage(spec, *given, make_aside=partial(self._make, aside))

    @property
    def _all(self) -> Iterator[Stage]:
        return (each for stage in self._stages.values() for each in stage.stages)

    def ended(self, message: messages.StageEnded) -> None:
        for stage in self._all:
            if stage.spec.key == message.key:
                stage.ended(message.attempt, message.reason, threw=message.threw)

    def keep(self, keys: Iterable[str]) -> None:
        """Close those that no flow needs any more."""
        for key in self._stages.keys() - set(keys):
            self._stages.pop(key).close()

    @property
    def wanted(self) -> tuple[messages.StageWanted, ...]:
        return tuple(
            messages.StageWanted(
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
