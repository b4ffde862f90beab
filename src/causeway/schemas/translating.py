"""The id that a schema has in another registry.

A schema is registered there as it says, under the subject that it has on the source or that of the
mirrored topic, after the versions before it and all that it refers to. What it is called there is
then what that registry says of the same text: registering twice gives the same id, whoever does it,
in whatever order, after any crash. So nothing needs to be remembered but for speed.
"""

from __future__ import annotations

from collections.abc import Iterable

from causeway.schemas.client import RegistryRefusedError, UnansweredError
from causeway.schemas.copier import CopyRound
from causeway.schemas.copying import SubjectPair
from causeway.schemas.registry import CircularError, Schema, SchemaRegistry, SubjectVersion, Trail


class IdTranslator:
    """Keeps its answers, because an id never changes. Not thread-safe. Raises UnansweredError (a
    CircularError for references that form a circle) and RegistryRefusedError."""

    def __init__(self, source: SchemaRegistry, target: SchemaRegistry) -> None:
        self._source, self._target = source, target
        self._trail = Trail(source.url)
        self.forget()

    def forget(self) -> None:
        """Others may have written since."""
        self._there: dict[
            tuple[SubjectPair, int], tuple[int, SubjectVersion]
        ] = {}  # with the source's id

    def there(
        self, pair: SubjectPair, number: int, *, id: int | None = None
    ) -> SubjectVersion | None:
        """The target's version that says what `number` of the source says, registered if it is not
        there; None where the source has no such version, or by `id` another one: a subject that is
        deleted for good and made anew has its first version again."""
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
        """The version of the target's `subject` that says what `schema` of the source does,
        registered if it is not there."""
        schema = self._moved(schema)
        return self._target.find(subject, schema) or self._register(subject, schema)

    def run(self, pairs: Iterable[SubjectPair]) -> CopyRound:
        """Registers all versions of `pairs` that are not there. What is deleted there, or has a
        level of compatibility, is the business of those who register there."""
        items: dict[str, str] = {}
        waiting, clashing, copied = set(), set(), 0
        for pair in pairs:
            try:
                for number in self._source.versions(pair.source):
                    self.there(pair, number)
            except RegistryRefusedError as error:
                items[pair.target] = f"the target's registry refuses: {error.reason}"
                clashing.add(pair.target)
            except CircularError as error:
                items[pair.target] = error.reason
                clashing.add(pair.target)
            except UnansweredError as error:
                if error.passing:
                    raise
                items[pair.target] = error.reason
                waiting.add(pair.target)
            else:
                copied += 1
        return CopyRound(
            copied=copied,
            waiting=frozenset(waiting),
            clashing=frozenset(clashing),
            items=items,
        )

    def missing(self, pair: SubjectPair) -> list[int]:
        """The source's versions that are not on the target; nothing is written."""
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
        """`known`: what was found of references, which many schemas may share."""
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
        """With its references as the target numbers them, which are registered there."""
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
            raise UnansweredError("it does not find what was just registered", passing=True)
        return found
