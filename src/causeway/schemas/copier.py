"""Carries out the changes that copying.py decides. One round reads both registries and applies
them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from causeway.schemas import copying
from causeway.schemas.client import RegistryRefusedError, UnansweredError
from causeway.schemas.copying import (
    Change,
    Delete,
    Import,
    Register,
    SetLevel,
    Subject,
    SubjectPair,
    SubjectPlan,
)
from causeway.schemas.registry import CircularError, Schema, SchemaRegistry, SubjectVersion, Trail

FRESH_S = 600.0  # how long answers of the target, and versions, are cached
AGAIN_S = 60.0  # how often a subject of the source is read in full, although no version changed
_NO_IDS = (
    "the target's registry gives ids of its own, also in the mode IMPORT:"
    " set causeway.schemas = translate"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRound:
    """The result of a round. `items`: subjects that are not copied, and why; `clashing`: those of
    them that an operator must decide about; `waiting`: those that may succeed at the next try."""

    copied: int = 0
    waiting: frozenset[str] = frozenset()
    clashing: frozenset[str] = frozenset()
    items: Mapping[str, str] = field(default_factory=dict)


class RoundResults:
    """Collects the results of a round, subject by subject."""

    def __init__(self) -> None:
        self.items: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.clashing: set[str] = set()

    @contextmanager
    def subject(self, name: str) -> Iterator[None]:
        """Records the errors of its block for the subject `name`. Raises UnansweredError if the
        registry as a whole does not answer."""
        try:
            yield
        except RegistryRefusedError as error:
            self.clash(name, f"the target's registry refuses: {error.reason}")
        except CircularError as error:
            self.clash(name, error.reason)
        except UnansweredError as error:
            if error.passing:
                raise
            self.items[name] = error.reason
            self.waiting.add(name)

    def clash(self, name: str, reason: str) -> None:
        self.items[name] = reason
        self.clashing.add(name)

    def round(self, copied: int) -> CopyRound:
        return CopyRound(
            copied=copied,
            waiting=frozenset(self.waiting),
            clashing=frozenset(self.clashing),
            items=self.items,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenSubject:
    """A subject as it was at `at`."""

    subject: Subject
    active: list[int]
    at: float


class Copier:
    """Caches its answers for a while. Not thread-safe. Raises UnansweredError if a registry as a
    whole does not answer."""

    def __init__(
        self,
        source: SchemaRegistry,
        target: SchemaRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._target = source, target
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """Drops the cache: other clients may have written since."""
        self._since = self._clock()
        self._versions: dict[tuple[int, str, int], SubjectVersion] = {}  # by registry
        self._done: dict[SubjectPair, Subject] = {}  # the source's, as they were copied
        self._seen: dict[str, _SeenSubject] = {}

    def plans(
        self, pairs: Iterable[SubjectPair]
    ) -> tuple[list[SubjectPlan], dict[SubjectPair, Subject], CopyRound]:
        """The plans for `pairs` and all subjects that they refer to, these subjects on the source,
        and the subjects that could not be read."""
        if self._clock() - self._since > FRESH_S:
            self.forget()
        sources: dict[str, Subject] = {}
        found: dict[SubjectPair, Subject] = {}
        failed: dict[str, str] = {}
        ahead = sorted(set(pairs), reverse=True)
        seen = set(ahead)
        plans = []
        while ahead:
            pair = ahead.pop()
            try:
                if pair.source not in sources:
                    sources[pair.source] = self._look_again(pair.source)
                source = found[pair] = sources[pair.source]
                plans.append(self._plan(pair, source))
            except (UnansweredError, RegistryRefusedError) as error:
                if isinstance(error, UnansweredError) and error.passing:
                    raise
                failed[pair.target] = error.reason
                continue
            for version in source.versions.values():
                for one in version.schema.references:
                    needed = SubjectPair(source=one.subject, target=one.subject)
                    if needed not in seen:
                        seen.add(needed)
                        ahead.append(needed)
        plans = [self._without_circles(each, sources) for each in plans]
        return plans, found, CopyRound(items=failed, waiting=frozenset(failed))

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Carries out the plans."""
        plans, sources, looked = self.plans(pairs)
        results = RoundResults()
        results.items.update(looked.items)
        results.waiting.update(looked.waiting)
        for each in plans:
            if each.clash is not None:
                results.clash(each.pair.target, each.clash)
        for each, change in copying.in_order(plans):
            if each.pair.target not in results.items:
                with results.subject(each.pair.target):
                    self._carry_out(change)
        good = [each.pair for each in plans if each.pair.target not in results.items]
        self._done |= {pair: sources[pair] for pair in good}
        return results.round(len(good))

    def _without_circles(self, plan: SubjectPlan, sources: Mapping[str, Subject]) -> SubjectPlan:
        """`plan`, or a clash if a version that it registers refers to itself through others."""
        trail = Trail(self._source.url)
        good: set[tuple[str, int]] = set()

        def follow(subject: str, number: int) -> None:
            version = sources[subject].versions.get(number) if subject in sources else None
            if version is None or (subject, number) in good:
                return
            with trail.into(subject, number):
                for one in version.schema.references:
                    follow(one.subject, one.version)
            good.add((subject, number))

        try:
            for change in plan.changes:
                if isinstance(change, Register):
                    follow(plan.pair.source, change.version.number)
        except CircularError as error:
            return SubjectPlan(pair=plan.pair, clash=error.reason)
        return plan

    def _plan(self, pair: SubjectPair, source: Subject) -> SubjectPlan:
        if self._done.get(pair) == source:
            return SubjectPlan(pair=pair)
        target = self._look(self._target, pair.target, with_mode=True)
        missing = (v for number, v in source.versions.items() if number not in target.versions)
        taken: dict[int, Schema | None] = {v.id: self._target.by_id(v.id) for v in missing}
        return copying.plan(pair, source, target, taken)

    def _look_again(self, name: str) -> Subject:
        """Reads a subject of the source. One question shows whether a version was added, deleted or
        deleted softly; the level, which may have changed too, is read less often."""
        seen, now = self._seen.get(name), self._clock()
        recent = seen is not None and now - seen.at < AGAIN_S
        if seen is not None and recent and self._source.versions(name) == seen.active:
            return seen.subject
        subject = self._look(self._source, name)
        self._seen[name] = _SeenSubject(subject=subject, active=sorted(subject.active), at=now)
        return subject

    def _look(self, registry: SchemaRegistry, subject: str, *, with_mode: bool = False) -> Subject:
        numbers = registry.versions(subject, deleted=True)
        active = frozenset(registry.versions(subject)) if numbers else frozenset()
        versions = {}
        for number in numbers:
            version = self._version(registry, subject, number)
            if version is not None:
                versions[number] = version
        return Subject(
            versions=versions,
            deleted=frozenset(versions) - active,
            level=registry.level(subject),
            mode=registry.mode(subject) if with_mode else None,
        )

    def _version(
        self, registry: SchemaRegistry, subject: str, number: int
    ) -> SubjectVersion | None:
        """Cached for ever, because the content of a version never changes."""
        key = (id(registry), subject, number)
        found = self._versions.get(key) or registry.version(subject, number)
        if found is not None:
            self._versions[key] = found
        return found

    def _carry_out(self, change: Change) -> None:
        match change:
            case Import():
                self._target.set_mode(change.subject, "IMPORT", force=change.force)
            case Register():
                self._register(change)
            case Delete():
                self._target.delete(change.subject, change.number)
            case SetLevel():
                self._target.set_level(change.subject, change.level)

    def _register(self, change: Register) -> None:
        version = change.version
        before = self._target.versions(change.subject)
        given = self._target.register(
            change.subject, version.schema, id=version.id, number=version.number
        )
        if given != version.id:
            stray = self._target.find(change.subject, version.schema)
            if (
                stray is not None and stray.number not in before
            ):  # otherwise another client registered it
                self._target.delete(change.subject, stray.number)
            raise RegistryRefusedError(0, _NO_IDS)
