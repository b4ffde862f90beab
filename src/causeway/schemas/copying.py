"""Decides how a registry's subjects are copied into another registry with their ids. This module
calls a registry only to carry out a change.

    missing on the target        ->  registered as the same version with the same id (mode IMPORT)
    deleted softly on the source ->  the same on the target
    its own compatibility level  ->  the same

A subject of the target counts as a copy as long as each version that both have is the same, with
the same id. Nothing else is changed: no subject in which other clients register, and no id of
another schema. A version that is permanently deleted on the source stays on the target.

By TopicNameStrategy, a topic's subjects are `TOPIC-key` and `TOPIC-value`. They follow the topic:
the subject of `orders`, which is `A.orders` on the target, is `A.orders-value` there. Subjects of
other strategies are chosen by patterns and keep their names, as do subjects that others refer
to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from causeway.config import SchemaSettings
from causeway.filters import excludes
from causeway.schemas.client import RegistryRefusedError
from causeway.schemas.registry import IMPORT, Schema, SchemaRegistry, SubjectVersion

PARTS = ("key", "value")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SubjectPair:
    """A subject, by its name in both registries."""

    source: str
    target: str


def subject_of(topic: str, part: str) -> str:
    """`part`: key or value."""
    return f"{topic}-{part}"


def chosen(
    settings: SchemaSettings, topics: Iterable[tuple[str, str]], subjects: Iterable[str]
) -> list[SubjectPair]:
    """Returns the source's `subjects` that belong to mirrored `topics` (names on source and target)
    or to the patterns of `settings`."""
    known = frozenset(subjects)
    found: set[SubjectPair] = set()
    for source, target in topics:
        for part in PARTS:
            subject = subject_of(source, part)
            if subject in known:
                found |= {
                    SubjectPair(source=subject, target=name)
                    for name in names(settings.names, subject, subject_of(target, part))
                }
    of_topics = {pair.source for pair in found}
    for subject in known - of_topics:
        if excludes(settings.subjects, subject):
            found.add(SubjectPair(source=subject, target=subject))
    return sorted(found)


def names(kind: str, own: str, mirrors: str) -> Iterator[str]:
    """Yields the target's names of a topic's subject `own`, by `SchemaSettings.names`. `mirrors`:
    the mirror's subject. The first name is the one by which records are translated."""
    if kind in ("mirror", "both"):
        yield mirrors
    if kind == "source" or (kind == "both" and own != mirrors):
        yield own


_NO_IDS = (
    "the target's registry gives ids of its own, also in the mode IMPORT:"
    " set causeway.schemas = translate"
)
TRANSLATE = "or set causeway.schemas = translate"
_NO_MODES = (
    "the target's registry has no mode IMPORT, which keeps ids: set causeway.schemas = translate"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subject in a registry. `deleted`: the versions that were deleted softly. `mode`: the mode
    in force, None if the registry has no modes. `level`: its own compatibility level, if any."""

    versions: Mapping[int, SubjectVersion] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()
    level: str | None = None
    mode: str | None = None

    @property
    def active(self) -> frozenset[int]:
        return frozenset(self.versions) - self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of `subject` in the target's registry."""

    subject: str

    def carry_out(self, registry: SchemaRegistry) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Change):
    """Sets the mode IMPORT. `force`: needed if the subject has softly deleted versions; otherwise
    the registry demands that these are permanently deleted."""

    force: bool = False

    def carry_out(self, registry: SchemaRegistry) -> None:
        registry.set_mode(self.subject, IMPORT, force=self.force)

    def __str__(self) -> str:
        return "put it into mode IMPORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Change):
    """Registers `version` as on the source."""

    version: SubjectVersion

    def carry_out(self, registry: SchemaRegistry) -> None:
        version = self.version
        before = registry.versions(self.subject)
        given = registry.register(
            self.subject, version.schema, id=version.id, number=version.number
        )
        if given != version.id:
            stray = registry.find(self.subject, version.schema)
            # A version that was there before is another client's.
            if stray is not None and stray.number not in before:
                registry.delete(self.subject, stray.number)
            raise RegistryRefusedError(0, _NO_IDS)

    def __str__(self) -> str:
        return f"register version {self.version.number} with id {self.version.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Change):
    """Deletes a version softly."""

    number: int

    def carry_out(self, registry: SchemaRegistry) -> None:
        registry.delete(self.subject, self.number)

    def __str__(self) -> str:
        return f"delete version {self.number} softly"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLevel(Change):
    """Sets the level. None: the registry's own level applies again."""

    level: str | None

    def carry_out(self, registry: SchemaRegistry) -> None:
        registry.set_level(self.subject, self.level)

    def __str__(self) -> str:
        return f"set its compatibility to {self.level or 'the default'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """The plan for one subject. `clash`: why it cannot be copied, and the remedy; then nothing is
    changed."""

    pair: SubjectPair
    changes: tuple[Change, ...] = ()
    clash: str | None = None


def plan(
    pair: SubjectPair, source: Subject, target: Subject, taken: Mapping[int, Schema | None]
) -> SubjectPlan:
    """Plans the copy. `taken`: the target's schema with each id of the source's versions."""
    if not source.versions:
        return SubjectPlan(pair=pair)  # permanently deleted
    reason = _differs(source, target) or _taken(source, target, taken)
    if target.mode is None and source.versions.keys() - target.versions.keys():
        reason = _NO_MODES  # such a registry has no contexts either
    if reason is not None:
        return SubjectPlan(pair=pair, clash=reason)
    to_register = [
        Register(subject=pair.target, version=version)
        for number, version in sorted(source.versions.items())
        if number not in target.versions
        or (number in target.deleted and number not in source.deleted)
    ]
    to_delete = [
        Delete(subject=pair.target, number=number)
        for number in sorted(source.deleted)
        if number not in target.deleted
    ]
    if not to_register and not to_delete:
        return SubjectPlan(pair=pair, changes=tuple(_levels(pair, source, target)))
    mode, reason = _importing(pair, target)
    if reason is not None:
        return SubjectPlan(pair=pair, clash=reason)
    levels = _levels(pair, source, Subject(level=target.level, mode=IMPORT))
    return SubjectPlan(pair=pair, changes=(*mode, *to_register, *to_delete, *levels))


def _differs(source: Subject, target: Subject) -> str | None:
    for number in sorted(source.versions.keys() & target.versions.keys()):
        ours, theirs = source.versions[number], target.versions[number]
        if ours.id != theirs.id or not ours.schema.same_as(theirs.schema):
            return (
                f"version {number} is another schema there (id {theirs.id}, on the source"
                f" {ours.id}): delete the subject there for good if it is not needed, copy into a"
                f" context (causeway.schemas.context), {TRANSLATE}"
            )
    return None


def _taken(source: Subject, target: Subject, taken: Mapping[int, Schema | None]) -> str | None:
    for number, version in sorted(source.versions.items()):
        there = taken.get(version.id) if number not in target.versions else None
        if there is not None and not there.same_as(version.schema):
            return (
                f"the id {version.id} of version {number} is another schema's there: copy into a"
                f" context (causeway.schemas.context), {TRANSLATE}"
            )
    return None


def _importing(pair: SubjectPair, target: Subject) -> tuple[tuple[Import, ...], str | None]:
    """Returns how versions can be registered with their ids, or why not."""
    if target.mode is None:
        return (), _NO_MODES
    if target.mode == IMPORT:
        return (), None
    if not target.active:
        return (Import(subject=pair.target, force=bool(target.versions)),), None
    return (), (
        f"it is in mode {target.mode} there, so that others may register in it: set its mode to"
        f" IMPORT (PUT /mode/{pair.target}?force=true) to have it copied again, {TRANSLATE}"
    )


def _levels(pair: SubjectPair, source: Subject, target: Subject) -> Iterator[SetLevel]:
    """Only for a certain copy, because other clients may have set the level of their subjects."""
    if source.level != target.level and target.mode == IMPORT:
        yield SetLevel(subject=pair.target, level=source.level)


def in_order(plans: Iterable[SubjectPlan]) -> list[tuple[SubjectPlan, Change]]:
    """Returns all changes in an order that is possible: a subject's mode before its versions, a
    schema after the schemas that it refers to, deletions and levels after all versions."""
    every = [(plan, change) for plan in plans for change in plan.changes]
    registers = {
        (change.subject, change.version.number): (plan, change)
        for plan, change in every
        if isinstance(change, Register)
    }
    modes = [one for one in every if isinstance(one[1], Import)]
    rest = [one for one in every if not isinstance(one[1], Import | Register)]
    return [*modes, *_sorted(registers), *rest]


def _sorted(
    registers: Mapping[tuple[str, int], tuple[SubjectPlan, Register]],
) -> Iterator[tuple[SubjectPlan, Register]]:
    done: set[tuple[str, int]] = set()
    for first in registers:
        below = [first]
        while below:
            key = below[-1]
            if key in done:
                below.pop()
                continue
            references = registers[key][1].version.schema.references
            needed = {(one.subject, one.version) for one in references} & registers.keys()
            if needed := needed.difference(done, below):
                below.append(min(needed))  # only one: each schema in `below` waits for the next
                continue
            done.add(below.pop())
            yield registers[key]
