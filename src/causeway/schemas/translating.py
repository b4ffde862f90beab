"""Translates the id of a schema to its id in another registry.

The schema is registered in the other registry with the same content, under the subject's name on
the source or that of the mirrored topic, after the versions before it and after all schemas that it
refers to. That registry's id of the same content is then the translation: registering twice gives
the same id, for any client, in any order, after any crash. So nothing is stored, and answers are
cached only for speed."""

from __future__ import annotations

from collections.abc import Iterable

from causeway.schemas.client import UnansweredError
from causeway.schemas.copier import CopyRound, RoundResults
from causeway.schemas.copying import SubjectPair
from causeway.schemas.registry import Schema, SchemaRegistry, SubjectVersion, Trail


class IdTranslator:
    """Caches its answers, because an id never changes. Not thread-safe. Raises UnansweredError (a
    CircularError for references that form a circle) and RegistryRefusedError."""

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry) -> None:
        self._source, self._target = source, target
        self._trail = Trail(source.url)
        self.forget()

    def forget(self) -> None:
        """Drops the cache: other clients may have written since."""
        self._there: dict[
            tuple[SubjectPair, int], tuple[int, SubjectVersion]
        ] = {}  # with the source's id

    def there(
        self, pair: SubjectPair, number: int, *, id: int | None = None
    ) -> SubjectVersion | None:
        """The target's version with the content of version `number` of the source, registered if it
        is missing. None if the source has no such version, or with `id` another one: a subject that
        is deleted for good and recreated has a first version again."""
        known = self._there.get((pair, number))
        if known is not None and id in (None, known[0]):
            return known[1]
        version = self._source.version(pair.source, number)
        if version is None or id not in (None, version.id):
            return None
        with self._trail.into(pair.source, number):
            schema = self._moved(version.schema)
            found = self._target.find(pair.target, schema)
            if found is None:
                found = self._registered(pair, number, schema)
        self._there[pair, number] = version.id, found
        return found

    def of(self, subject: str, schema: Schema) -> SubjectVersion:
        """The version of the target's `subject` with the content of the source's `schema`,
        registered if it is missing."""
        schema = self._moved(schema)
        return self._target.find(subject, schema) or self._register(subject, schema)

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Registers all missing versions of `pairs`. Deletions and compatibility levels there
        belong to the clients that register there."""
        results, copied = RoundResults(), 0
        for pair in pairs:
            with results.subject(pair.target):
                for number in self._source.versions(pair.source):
                    self.there(pair, number)
                copied += 1
        return results.round(copied)

    def missing(self, pair: SubjectPair) -> list[int]:
        """The source's versions that are not on the target; writes nothing."""
        known: dict[tuple[str, int], SubjectVersion | None] = {}
        found = []
        for number in self._source.versions(pair.source):
            version = self._source.version(pair.source, number)
            if version is not None and self._find(pair.target, version.schema, known) is None:
                found.append(number)
        return found

    def _find(
        self, subject: str, schema: Schema, known: dict[tuple[str, int], SubjectVersion | None]
    ) -> SubjectVersion | None:
        """`known`: the results for references, which many schemas may share."""
        versions = {}
        for one in schema.references:
            key = (one.subject, one.version)
            if key not in known:
                with self._trail.into(*key):
                    referred = self._source.version(*key)
                    known[key] = referred and self._find(one.subject, referred.schema, known)
            there = known[key]
            if there is None:
                return None
            versions[key] = there.number
        return self._target.find(subject, schema.with_references(versions))

    def _moved(self, schema: Schema) -> Schema:
        """The schema with the target's numbers of its references, which are registered there."""
        versions = {}
        for one in schema.references:
            found = self.there(SubjectPair(source=one.subject, target=one.subject), one.version)
            if found is not None:
                versions[one.subject, one.version] = found.number
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
