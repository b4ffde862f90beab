"""The schemas of one link: copied with their ids, or registered so that ids can be translated; or
the plan of either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from causeway.config import SchemaSettings
from causeway.errors import CausewayError
from causeway.schemas.client import (
    RegistryError,
    RegistryRefusedError,
    UnansweredError,
    unanswered,
)
from causeway.schemas.copier import Copier, CopyRound
from causeway.schemas.copying import SubjectPair, chosen
from causeway.schemas.registry import Schema, SchemaRegistry, SubjectVersion, Trail

TASK = "schemas"
Topics = Iterable[tuple[str, str]]  # names on the source and on the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a run would do with a subject: `changes` as text; `clash`: why it cannot."""

    pair: SubjectPair
    changes: tuple[str, ...] = ()
    clash: str | None = None


class LinkSchemas:
    """Not thread-safe. Raises a CausewayError if a registry as a whole does not answer."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._settings = settings
        self._source = SchemaRegistry(settings.source)
        both = self._source, SchemaRegistry(settings.target, settings.context)
        self._worker = Copier(*both) if settings.mode == "copy" else IdTranslator(*both)

    def forget(self) -> None:
        """Drops caches: other clients may have written since."""
        self._worker.forget()

    def run(self, topics: Topics) -> CopyRound:
        with _answered(self._settings.mode):
            return self._worker.run(self._chosen(topics))

    def due(self, topics: Topics) -> list[Due]:
        """The same without writing."""
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

    The schema is registered in the other registry with the same content, under the subject's name
    on the source or that of the mirrored topic, after the versions before it and after all schemas
    that it refers to. That registry's id of the same content is then the translation: registering
    twice gives the same id, for any client, in any order, after any crash. So nothing is stored,
    and answers are cached only for speed.

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
        """Drops the cache: other clients may have written since."""
        # With the source's id. None: missing, in a dry run.
        self._there: dict[tuple[SubjectPair, int], tuple[int, SubjectVersion | None]] = {}

    def there(
        self, pair: SubjectPair, number: int, *, id: int | None = None
    ) -> SubjectVersion | None:
        """The target's version with the content of version `number` of the source, registered if it
        is missing. None if it is missing in a dry run, or if the source has no such version, or
        with `id` another one: a subject that is deleted for good and recreated has a first version
        again."""
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
        """The version of the target's `subject` with the content of the source's `schema`,
        registered if it is missing."""
        moved = self._moved(schema)
        assert moved is not None
        return self._target.find(subject, moved) or self._register(subject, moved)

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Registers all missing versions of `pairs`. Deletions and compatibility levels there
        belong to the clients that register there."""
        done = CopyRound()
        for pair in pairs:
            with done.subject(pair.target):
                for number in self._source.versions(pair.source):
                    self.there(pair, number)
                done.copied += 1
        return done

    def missing(self, pair: SubjectPair) -> list[int]:
        """The source's versions that are not on the target; writes nothing."""
        dry = IdTranslator(self._source, self._target, dry=True)
        numbers = self._source.versions(pair.source)
        return [number for number in numbers if dry.there(pair, number) is None]

    def _moved(self, schema: Schema) -> Schema | None:
        """The schema with the target's numbers of its references, which are registered there. None
        in a dry run if one of them is missing."""
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
