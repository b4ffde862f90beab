"""The schemas of one link: plans or makes the changes in the registry of its target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from causeway.config import SchemaSettings
from causeway.errors import CausewayError
from causeway.schemas.client import RegistryRefusedError, UnansweredError, unanswered
from causeway.schemas.copier import Copier, CopyRound
from causeway.schemas.copying import Delete, Import, Register, SetLevel, SubjectPair, chosen
from causeway.schemas.registry import SchemaRegistry
from causeway.schemas.translating import IdTranslator

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
        target = SchemaRegistry(settings.target, settings.context)
        self._copier = Copier(self._source, target) if settings.mode == "copy" else None
        self._translator = IdTranslator(self._source, target)

    def forget(self) -> None:
        """Drops caches: other clients may have written since."""
        self._translator.forget()
        if self._copier is not None:
            self._copier.forget()

    def run(self, topics: Topics) -> CopyRound:
        with _answered(self._settings.mode):
            pairs = self._chosen(topics)
            return (self._copier or self._translator).run(pairs)

    def due(self, topics: Topics) -> list[Due]:
        """The same without writing."""
        with _answered(self._settings.mode):
            pairs = self._chosen(topics)
            if self._copier is None:
                return [self._to_register(pair) for pair in pairs]
            plans, _, looked = self._copier.plans(pairs)
            failed = [
                Due(pair=SubjectPair(source=name, target=name), clash=why)
                for name, why in looked.items.items()
            ]
            found = [
                Due(pair=each.pair, changes=tuple(map(_in_words, each.changes)), clash=each.clash)
                for each in plans
            ]
            return [*found, *failed]

    def _chosen(self, topics: Topics) -> list[SubjectPair]:
        return chosen(self._settings, topics, self._source.subjects())

    def _to_register(self, pair: SubjectPair) -> Due:
        try:
            missing = self._translator.missing(pair)
        except (RegistryRefusedError, UnansweredError) as error:
            if isinstance(error, UnansweredError) and error.passing:
                raise
            return Due(pair=pair, clash=error.reason)
        return Due(pair=pair, changes=tuple(f"register version {number}" for number in missing))


def _in_words(change: object) -> str:
    match change:
        case Import():
            return "put it into mode IMPORT"
        case Register(version=version):
            return f"register version {version.number} with id {version.id}"
        case Delete(number=number):
            return f"delete version {number} softly"
        case SetLevel(level=level):
            return f"set its compatibility to {level or 'the default'}"
    raise TypeError(change)


@contextmanager
def _answered(mode: str) -> Iterator[None]:
    try:
        yield
    except UnansweredError as error:
        raise unanswered(f"{mode} schemas", error) from None
    except RegistryRefusedError as error:
        raise CausewayError(f"{mode} schemas", "", error.reason) from None
