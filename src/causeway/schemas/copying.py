"""Which subjects belong to a link, and what they are called on its target.

By TopicNameStrategy, a topic's are `TOPIC-key` and `TOPIC-value`. They follow the topic: that of
`orders`, which is `A.orders` on the target, is `A.orders-value` there. Subjects of other strategies
are named by patterns, and keep their names; so do those that others refer to.

Keeping a registry's subjects copied into another, with their ids: decided purely.

    missing on the target        ->  registered as the same version with the same id (mode IMPORT)
    deleted softly on the source ->  the same on the target
    its own compatibility level  ->  the same

A subject of the target is taken for a copy as long as each version that both have is the same, with
the same id. Nothing else there is ever changed: not a subject in which somebody else registers, and
no id that means another schema. What is deleted for good on the source stays on the target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from causeway.config import SchemaSettings
from causeway.filters import excludes
from causeway.schemas.registry import IMPORT, Schema, SubjectVersion

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
    """Of the source's `subjects` those that belong to mirrored `topics` (name on the source, on the
    target) or to the patterns of `settings`."""
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
    """What a topic's subject `own` is called on the target, where its mirror's is `mirrors`, by
    `SchemaSettings.names`; the first is the one that records are translated by."""
    if kind in ("mirror", "both"):
        yield mirrors
    if kind == "source" or (kind == "both" and own != mirrors):
        yield own


TRANSLATE = "or set causeway.schemas = translate"
_NO_MODES = (
    "the target's registry has no mode IMPORT, which keeps ids: set causeway.schemas = translate"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One as a registry has it. `deleted`: the versions that were deleted softly; `mode`: the one
    in force, None where the registry knows of none; `level`: its own, None where it has none."""

    versions: Mapping[int, SubjectVersion] = field(default_factory=dict)
    deleted: frozenset[int] = frozenset()
    level: str | None = None
    mode: str | None = None

    @property
    def active(self) -> frozenset[int]:
        return frozenset(self.versions) - self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to do in the target's registry with `subject`."""

    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Change):
    """Put the subject into the mode IMPORT. `force`: though it has versions that were deleted
    softly, which the registry would take for a reason to delete them for good."""

    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Register(Change):
    """`version` as on the source."""

    version: SubjectVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Change):
    """Softly."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLevel(Change):
    """None: the registry's own counts again."""

    level: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPlan:
    """Of one subject. `clash`: why it cannot be copied, and what to do; then nothing is changed."""

    pair: SubjectPair
    changes: tuple[Change, ...] = ()
    clash: str | None = None


def plan(
    pair: SubjectPair, source: Subject, target: Subject, taken: Mapping[int, Schema | None]
) -> SubjectPlan:
    """`taken`: what the target's registry has under each id of the source's versions."""
    if not source.versions:
        return SubjectPlan(pair=pair)  # gone for good by now
    reason = _differs(source, target) or _taken(source, target, taken)
    if target.mode is None and source.versions.keys() - target.versions.keys():
        reason = _NO_MODES  # nor has it contexts
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
                f" {ours.id}): delete the subject there for good if nobody needs it, copy into a"
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
    """How versions can be written with their ids, or why not."""
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
    """Only of what is surely a copy: others may have given theirs another level."""
    if source.level != target.level and target.mode == IMPORT:
        yield SetLevel(subject=pair.target, level=source.level)


def in_order(plans: Iterable[SubjectPlan]) -> list[tuple[SubjectPlan, Change]]:
    """All changes, each after those that it needs: a subject's mode before its versions, a schema
    after those that it refers to, deletions and levels after all versions."""
    plans = list(plans)
    modes = [(p, c) for p in plans for c in p.changes if isinstance(c, Import)]
    registers: dict[tuple[str, int], tuple[SubjectPlan, Register]] = {}
    for each in plans:
        for change in each.changes:
            if isinstance(change, Register):
                registers[change.subject, change.version.number] = (each, change)
    rest = [(p, c) for p in plans for c in p.changes if not isinstance(c, (Import, Register))]
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
            needed = [
                (one.subject, one.version)
                for one in references
                if (one.subject, one.version) in registers
                and (one.subject, one.version) not in done
                and (one.subject, one.version) not in below
            ]
            if needed:
                below += needed
                continue
            done.add(below.pop())
            yield registers[key]
