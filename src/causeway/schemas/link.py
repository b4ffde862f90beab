"""The schemas of one link: copies them with their ids, or registers them so that ids can be
translated, or plans one of both. A round of copying reads both registries and carries out the
changes that copying.py decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from causeway.config import SchemaSettings
from causeway.errors import CausewayError
from causeway.schemas import copying
from causeway.schemas.client import (
    RegistryError,
    RegistryRefusedError,
    UnansweredError,
    unanswered,
)
from causeway.schemas.copying import Register, Subject, SubjectPair, SubjectPlan, chosen
from causeway.schemas.registry import (
    CircularError,
    Schema,
    SchemaRegistry,
    SubjectVersion,
    Trail,
)

FRESH_S = 600.0  # how long answers of the target, and versions, are cached
AGAIN_S = 60.0  # between two full reads of a source's subject whose versions do not change
TASK = "schemas"
Topics = Iterable[tuple[str, str]]  # names on the source and on the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A run's changes to a subject. `changes`: as texts. `clash`: why it cannot be changed."""

    pair: SubjectPair
    changes: tuple[str, ...] = ()
    clash: str | None = None


class LinkSchemas:
    """Not thread-safe. Raises CausewayError if a registry does not answer at all."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._settings = settings
        self._source = SchemaRegistry(settings.source)
        both = self._source, SchemaRegistry(settings.target, settings.context)
        self._worker = Copier(*both) if settings.mode == "copy" else IdTranslator(*both)

    def forget(self) -> None:
        """Drops caches, because other clients may have written."""
        self._worker.forget()

    def run(self, topics: Topics) -> CopyRound:
        with _answered(self._settings.mode):
            return self._worker.run(self._chosen(topics))

    def due(self, topics: Topics) -> list[Due]:
        """Returns what a run would change, without writing."""
        with _answered(self._settings.mode):
            pairs = self._chosen(topics)
            if isinstance(self._worker, IdTranslator):
                return [_to_register(self._worker, pair) for pair in pairs]
            plans, _, looked = self._worker.plans(pairs)
            failed = [
                Due(pair=SubjectPair(source=name, target=name), clash=why)
                for name, why in looked.items.items()
            ]
            found = [
                Due(pair=each.pair, changes=tuple(map(str, each.changes)), clash=each.clash)
                for each in plans
            ]
            return [*found, *failed]

    def _chosen(self, topics: Topics) -> list[SubjectPair]:
        return chosen(self._settings, topics, self._source.subjects())


def _to_register(translator: IdTranslator, pair: SubjectPair) -> Due:
    try:
        missing = translator.missing(pair)
    except RegistryError as error:
        if error.passing:
            raise
        return Due(pair=pair, clash=error.reason)
    return Due(pair=pair, changes=tuple(f"register version {number}" for number in missing))


@contextmanager
def _answered(mode: str) -> Iterator[None]:
    try:
        yield
    except UnansweredError as error:
        raise unanswered(f"{mode} schemas", error) from None
    except RegistryRefusedError as error:
        raise CausewayError(f"{mode} schemas", "", error.reason) from None


class IdTranslator:
    """Translates the id of a schema to its id in another registry.

    The schema is registered in the other registry with the same content. Its subject has the name
    on the source, or the name of the mirrored topic. Earlier versions, and all schemas that it
    refers to, are registered before. That registry's id of the same content is the translation:
    registering twice gives the same id, for any client, in any order, after any crash. So nothing
    is stored, and answers are cached only for speed.

    Not thread-safe. Raises UnansweredError (a CircularError for references that form a circle) and
    RegistryRefusedError."""

    def __init__(
        self, source: SchemaRegistry, target: SchemaRegistry, *, dry: bool = False
    ) -> None:
        """`dry`: writes nothing."""
        self._source, self._target, self._dry = source, target, dry
        self._trail = Trail(source.url)
        self.forget()

    def forget(self) -> None:
        """Drops the cache, because other clients may have written."""
        # With the source's id. None: missing, in a dry run.
        self._there: dict[tuple[SubjectPair, int], tuple[int, SubjectVersion | None]] = {}

    def there(
        self, pair: SubjectPair, number: int, *, id: int | None = None
    ) -> SubjectVersion | None:
        """Returns the target's version with the content of version `number` of the source.
        Registers it if it is missing. None if it is missing in a dry run, or if the source has no
        such version, or has another id than `id`: a permanently deleted and recreated subject has a
        first version again."""
        known = self._there.get((pair, number))
        if known is not None and id in (None, known[0]):
            return known[1]
        version = self._source.version(pair.source, number)
        if version is None or id not in (None, version.id):
            return None
        with self._trail.into(pair.source, number):
            schema = self._moved(version.schema)
            found = None if schema is None else self._target.find(pair.target, schema)
            if found is None and schema is not None and not self._dry:
                found = self._registered(pair, number, schema)
        self._there[pair, number] = version.id, found
        return found

    def of(self, subject: str, schema: Schema) -> SubjectVersion:
        """Returns the version of the target's `subject` with the content of the source's `schema`.
        Registers it if it is missing."""
        moved = self._moved(schema)
        assert moved is not None
        return self._target.find(subject, moved) or self._register(subject, moved)

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Registers all missing versions of `pairs`. Does not change deletions and compatibility
        levels on the target: they belong to the clients that register there."""
        done = CopyRound()
        for pair in pairs:
            with done.subject(pair.target):
                for number in self._source.versions(pair.source):
                    self.there(pair, number)
                done.copied += 1
        return done

    def missing(self, pair: SubjectPair) -> list[int]:
        """Returns the source's versions that are not on the target. Writes nothing."""
        dry = IdTranslator(self._source, self._target, dry=True)
        numbers = self._source.versions(pair.source)
        return [number for number in numbers if dry.there(pair, number) is None]

    def _moved(self, schema: Schema) -> Schema | None:
        """Returns the schema with the target's version numbers in its references. Registers these
        schemas. None in a dry run if one of them is missing."""
        versions = {}
        for one in schema.references:
            found = self.there(SubjectPair(source=one.subject, target=one.subject), one.version)
            if found is not None:
                versions[one.subject, one.version] = found.number
            elif self._dry:
                return None
        return schema.with_references(versions)

    def _registered(self, pair: SubjectPair, number: int, schema: Schema) -> SubjectVersion:
        earlier = [each for each in self._source.versions(pair.source) if each < number]
        for each in earlier:
            self.there(pair, each)
        is_new = not self._target.versions(pair.target, deleted=True)
        found = self._register(pair.target, schema)
        if is_new and (level := self._source.level(pair.source)) is not None:
            self._target.set_level(pair.target, level)
        return found

    def _register(self, subject: str, schema: Schema) -> SubjectVersion:
        self._target.register(subject, schema)
        found = self._target.find(subject, schema)
        if found is None:
            raise UnansweredError(
                "it does not find the schema that was just registered", passing=True
            )
        return found


@dataclass(slots=True, kw_only=True)
class CopyRound:
    """The result of a round. `items`: subjects that are not copied, and why. `clashing`: those that
    need a decision of an operator. `waiting`: those that may succeed at the next try."""

    copied: int = 0
    waiting: set[str] = field(default_factory=set)
    clashing: set[str] = field(default_factory=set)
    items: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def subject(self, name: str) -> Iterator[None]:
        """Records the errors of its block for the subject `name`. Raises UnansweredError if the
        registry does not answer at all."""
        try:
            yield
        except RegistryRefusedError as error:
            self.clash(name, f"the target's registry refuses: {error.reason}")
        except CircularError as error:
            self.clash(name, error.reason)
        except RegistryError as error:
            self.wait(name, error)

    def wait(self, name: str, error: RegistryError) -> None:
        """Records `error`, or raises it if the registry does not answer at all."""
        if error.passing:
            raise error
        self.items[name] = error.reason
        self.waiting.add(name)

    def clash(self, name: str, reason: str) -> None:
        self.items[name] = reason
        self.clashing.add(name)


class Copier:
    """Caches answers for a while. Not thread-safe. Raises UnansweredError if a registry does not
    answer at all."""

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
        """Drops the cache, because other clients may have written."""
        self._since = self._clock()
        self._versions: dict[tuple[int, str, int], SubjectVersion] = {}  # by registry
        self._done: dict[SubjectPair, Subject] = {}  # the source's, as they were copied
        self._seen: dict[str, tuple[Subject, float]] = {}  # the source's, and when

    def plans(
        self, pairs: Iterable[SubjectPair]
    ) -> tuple[list[SubjectPlan], dict[SubjectPair, Subject], CopyRound]:
        """Returns the plans for `pairs` and all subjects that they refer to, these subjects on the
        source, and the subjects that could not be read."""
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
        """Returns `plan`, or a clash if a version refers to itself through other versions."""
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
        """Reads a subject of the source. One request shows whether a version was added, deleted or
        deleted softly. The level, which may also change, is read less often."""
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
        """Returns a version. It is cached without end, because its content never changes."""
        key = (id(registry), subject, number)
        found = self._versions.get(key) or registry.version(subject, number)
        if found is not None:
            self._versions[key] = found
        return found
