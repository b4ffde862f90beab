"""Copies subjects: one round reads both registries and carries out the changes that copying.py
decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from causeway.schemas import copying
from causeway.schemas.client import RegistryError, RegistryRefusedError
from causeway.schemas.copying import Register, Subject, SubjectPair, SubjectPlan
from causeway.schemas.registry import CircularError, SchemaRegistry, SubjectVersion, Trail

FRESH_S = 600.0  # how long answers of the target, and versions, are cached
AGAIN_S = 60.0  # how often a subject of the source is read in full, although no version changed


@dataclass(slots=True, kw_only=True)
class CopyRound:
    """The result of a round. `items`: subjects that are not copied, and why; `clashing`: those of
    them that an operator must decide about; `waiting`: those that may succeed at the next try."""

    copied: int = 0
    waiting: set[str] = field(default_factory=set)
    clashing: set[str] = field(default_factory=set)
    items: dict[str, str] = field(default_factory=dict)

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
        except RegistryError as error:
            self.wait(name, error)

    def wait(self, name: str, error: RegistryError) -> None:
        """Raises `error` if the registry as a whole does not answer."""
        if error.passing:
            raise error
        self.items[name] = error.reason
        self.waiting.add(name)

    def clash(self, name: str, reason: str) -> None:
        self.items[name] = reason
        self.clashing.add(name)


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
        self._seen: dict[str, tuple[Subject, float]] = {}  # the source's, and when

    def plans(
        self, pairs: Iterable[SubjectPair]
    ) -> tuple[list[SubjectPlan], dict[SubjectPair, Subject], CopyRound]:
        """The plans for `pairs` and all subjects that they refer to, these subjects on the source,
        and the subjects that could not be read."""
        if self._clock() - self._since > FRESH_S:
            self.forget()
        sources: dict[str, Subject] = {}
        found: dict[SubjectPair, Subject] = {}
        looked = CopyRound()
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
            except RegistryError as error:
                looked.wait(pair.target, error)
                continue
            for version in source.versions.values():
                for one in version.schema.references:
                    needed = SubjectPair(source=one.subject, target=one.subject)
                    if needed not in seen:
                        seen.add(needed)
                        ahead.append(needed)
        return [self._without_circles(each, sources) for each in plans], found, looked

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Carries out the plans."""
        plans, sources, done = self.plans(pairs)
        for each in plans:
            if each.clash is not None:
                done.clash(each.pair.target, each.clash)
        for each, change in copying.in_order(plans):
            if each.pair.target not in done.items:
                with done.subject(each.pair.target):
                    change.carry_out(self._target)
        good = [each.pair for each in plans if each.pair.target not in done.items]
        self._done |= {pair: sources[pair] for pair in good}
        done.copied = len(good)
        return done

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
        taken = {v.id: self._target.by_id(v.id) for v in missing}
        return copying.plan(pair, source, target, taken)

    def _look_again(self, name: str) -> Subject:
        """Reads a subject of the source. One question shows whether a version was added, deleted or
        deleted softly; the level, which may have changed too, is read less often."""
        now = self._clock()
        seen, at = self._seen.get(name, (None, 0.0))
        recent = seen is not None and now - at < AGAIN_S
        if seen is not None and recent and seen.active == {*self._source.versions(name)}:
            return seen
        subject = self._look(self._source, name)
        self._seen[name] = subject, now
        return subject

    def _look(self, registry: SchemaRegistry, subject: str, *, with_mode: bool = False) -> Subject:
        numbers = registry.versions(subject, deleted=True)
        active = frozenset(registry.versions(subject)) if numbers else frozenset()
        read = (self._version(registry, subject, number) for number in numbers)
        versions = {version.number: version for version in read if version is not None}
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
