"""What schemas are called in the target's registry, for the threads of a lane.

Looking is quick and asks nobody; what it lacks it notes, and `find_out` asks the registries for it.
What was found is for ever. What the source's registry does not know is asked for again.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from causeway.schemas.registry import RefusedError, Registry, UnansweredError, Version
from causeway.schemas.selection import Pair, names, subject_of
from causeway.schemas.told import unanswered
from causeway.schemas.translating import Translator

LATE_S = (0.2, 0.4, 0.8, 1.6)  # before what it does not know is asked for again: see below
LATE_EVERY_S = 60.0
_MOST = 10_000  # made-up ids that are remembered


class Asked(NamedTuple):
    """An id or GUID, of the key or value (`part`) of a record of a topic (its name on both
    sides)."""

    source: str
    target: str
    part: str
    name: int | str


class Unknown(NamedTuple):
    """Why there is no answer. `nowhere`: the source's registry does not know it."""

    reason: str
    nowhere: bool = False


class Ids:
    """Thread-safe. `called`: see `SchemaSettings.names`."""

    def __init__(self, source: Registry, target: Registry, called: str) -> None:
        self._source = source
        self._called = called
        self._translator = Translator(self._source, target)
        self._found: dict[Asked, int | str] = {}
        self._unknown: dict[Asked, Unknown] = {}
        self._lacking: dict[Asked, None] = {}  # in the order in which they were met
        self._lock = threading.Lock()  # of these
        self._asking = threading.Lock()
        self._late_at = -LATE_EVERY_S

    def get(self, asked: Asked, *, settled: bool = False) -> int | str | Unknown | None:
        """None: nobody has found out yet. That is noted, and what is unknown, but where it is
        `settled` what is to become of ids that are known nowhere."""
        found = self._found.get(asked)
        if found is not None:
            return found
        with self._lock:
            unknown = self._unknown.get(asked)
            if not (settled and unknown is not None and unknown.nowhere):
                self._lacking[asked] = None
            return unknown

    def find_out(self) -> None:
        """What is noted. Raises CausewayError where a registry does not answer: then it stays so.
        What it says of a single id is for `get`."""
        with self._asking:
            while True:
                with self._lock:
                    asked = next(iter(self._lacking), None)
                if asked is None:
                    return
                answer = self._answer(asked)
                with self._lock:
                    if isinstance(answer, Unknown):
                        if len(self._unknown) >= _MOST:
                            self._unknown.clear()
                        self._unknown[asked] = answer
                    else:
                        self._found[asked] = answer
                        self._unknown.pop(asked, None)
                    self._lacking.pop(asked, None)

    def _answer(self, asked: Asked) -> int | str | Unknown:
        try:
            version = self._version(asked)
        except UnansweredError as error:
            if error.passing or error.denied:
                raise unanswered("translate the ids of schemas", error) from None
            return Unknown(f"the registry {error.url}: {error.reason}")
        except RefusedError as error:
            return Unknown(f"the target's registry refuses the schema: {error.reason}")
        if version is None:
            where = self._source.url
            return Unknown(f"the registry {where} does not know its schema", nowhere=True)
        if isinstance(asked.name, int):
            return version.id
        return version.guid or Unknown("the target's registry has no GUIDs")

    def _version(self, asked: Asked) -> Version | None:
        """On the target. One of several instances of a registry may hear late of what was
        registered a moment ago; but who makes ids up is not to hold up the others."""
        found = self._there(asked)
        if found is None and time.monotonic() - self._late_at >= LATE_EVERY_S:
            for pause in LATE_S:
                time.sleep(pause)
                if (found := self._there(asked)) is not None:
                    return found
            self._late_at = time.monotonic()
        return found

    def _there(self, asked: Asked) -> Version | None:
        id = asked.name if isinstance(asked.name, int) else self._source.id_of_guid(asked.name)
        if id is None:
            return None
        own = subject_of(asked.source, asked.part)
        mirrors = subject_of(asked.target, asked.part)
        called = next(names(self._called, own, mirrors))
        listed = sorted(self._source.subjects_of(id), key=lambda each: (each[0] != own, each))
        for subject, number in listed:
            target = called if subject == own else subject
            pair = Pair(source=subject, target=target)
            if (found := self._translator.there(pair, number)) is not None:
                return found
        # No subject has it any more, but its id is for ever.
        schema = self._source.by_id(id)
        return None if schema is None else self._translator.of(called, schema)
