"""Answers many questions about offsets together, for each link in turn. Reads each log only
once."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from causeway.cluster import Connect, OffsetAt, clusters
from causeway.config import LinkSettings, Settings, links_of, reverse_of, unknown
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import (
    DirectiveLog,
    PartitionProgress,
    ProgressContents,
    read_progress,
)
from causeway.model import TopicPartition
from causeway.translation.counting import Check
from causeway.translation.directions import translate as translate_course
from causeway.translation.logs import (
    PATIENCE_S,
    ClusterLogs,
    LinkLogs,
    MappedCourse,
    logs_of,
    mapped_courses,
)
from causeway.translation.reverse import origin_of
from causeway.translation.values import Answer, MappedOffset, OffsetNote, Question

_AT_ONCE = 8  # courses whose logs are read at the same time
# If a link does not have the mirror, another link may have it. The most specific reason is first.
_NOT_THERE = (OffsetNote.NOT_BEGUN, OffsetNote.NOT_MIRRORED, OffsetNote.UNKNOWN)
_TRANSLATE = "translate offsets of"
_SEVERAL = "records went to several partitions, or came from several: each has its own offset"

_ByQuestion = dict[Question, Answer]  # of one link
# By requested partition: each of its courses, with the results by offset.
Found = dict[TopicPartition, list[tuple[MappedCourse, dict[int, MappedOffset]]]]


def translate(
    settings: Settings,
    questions: Iterable[Question],
    *,
    link: str | None = None,
    back: bool = False,
    patience_s: float | None = None,
) -> tuple[Answer, ...]:
    """Translates offsets for consumers that keep their own: from the source to the target, with
    `back` from the target to the source.

    Returns answers in the order of the questions: one for each link that has the topic, or of
    `link` alone. Asks only the clusters, no driver. If the source cluster is gone, it answers what
    the progress topic shows; the other answers give this reason. Waits up to ten seconds for a
    cluster that does not answer. If records have to be counted in the logs, and this takes longer
    than `patience_s`, the answer is not exact. If there are several links, and the target of one
    does not answer, the answers of this link give this reason (UNREACHABLE).

    Raises ConfigError for an unknown link, or a question without exactly one of offset and
    timestamp; CausewayError if no target can be asked.
    """
    asked = list(questions)
    for question in asked:
        _check(question)
    links = links_of(settings, link, "translate")
    with clusters() as connect:
        limit = _Limit(patience_s)
        found: list[_ByQuestion] = []
        errors: dict[str, CausewayError] = {}
        for each in links:
            try:
                of_link = _OfLink(each, settings, connect, limit, back=back)
                found.append(of_link.answers(asked))
            except CausewayError as error:
                errors[each.name] = error
                found.append(_unreachable(each, asked, error, back=back))
        if len(errors) == len(links):
            raise errors[links[0].name]
    answers: list[Answer] = []
    for question in asked:
        of_links = [one[question] for one in found if question in one]
        mirrored = [one for one in of_links if one.why not in _NOT_THERE]
        if back and any(one.link not in errors for one in mirrored):
            # Only the target itself shows whether it has the topic.
            mirrored = [one for one in mirrored if one.link not in errors]
        answers += mirrored or [
            min(of_links, key=lambda one: _NOT_THERE.index(one.why or OffsetNote.UNKNOWN))
        ]
    return tuple(answers)


def _unreachable(
    link: LinkSettings, questions: Iterable[Question], error: CausewayError, *, back: bool
) -> _ByQuestion:
    """Returns the answers of a link with an unreachable target, for topics that it mirrors."""
    return {
        question: Answer(
            question=question,
            link=link.name,
            offset=question.offset,
            why=OffsetNote.UNREACHABLE,
            note=f"{link.target.alias} cannot be asked: {error}",
        )
        for question in questions
        if back or link.decide_topic(question.topic).target_name is not None
    }


class _Limit:
    """Ends reads of logs after `patience_s`, or when `over` is set."""

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = patience_s
        self._until = None if patience_s is None else time.monotonic() + patience_s
        self.over = False

    def check(self) -> None:
        """Raises CausewayError if the time is over."""
        if self.over or (self._until is not None and time.monotonic() > self._until):
            cause = f"it takes longer than {self._patience_s} s to count in the logs"
            remedy = "causeway translate takes the time that it needs"
            raise CausewayError("look up offsets", cause=cause, remedy=remedy, retriable=True)


def _check(question: Question) -> None:
    given = (question.offset, question.timestamp)
    subject = str(question.at)
    if given.count(None) != 1:
        raise ConfigError(_TRANSLATE, subject, "say either an offset or a timestamp")
    numbers = [question.partition, *(one for one in given if one is not None)]
    if max(numbers) >= 1 << 63:
        raise ConfigError(_TRANSLATE, subject, "offsets and timestamps have 63 bits")
    if min(numbers) < 0:
        cause = "partitions, offsets and timestamps are counted from 0"
        raise ConfigError(_TRANSLATE, subject, cause)


class _OfLink:
    """The answers of one link. Raises CausewayError if its target does not answer."""

    def __init__(
        self,
        link: LinkSettings,
        settings: Settings,
        connect: Connect,
        limit: _Limit,
        *,
        back: bool,
    ) -> None:
        self._link = link
        self._settings = settings
        self._connect = connect
        self._limit = limit
        self._back = back
        self._contents = read_progress(link, connect)

    def answers(self, questions: Sequence[Question]) -> _ByQuestion:
        fed = self._fed({question.at for question in questions})
        known = {progress.source: progress for each in fed.values() for progress in each}.values()
        logs = logs_of(self._link, self._connect, known, self._limit.check)
        courses = mapped_courses(self._link, self._settings, self._contents, known, logs)
        begun = [question for question in questions if fed[question.at]]
        offsets = _offsets(begun, logs.target if self._back else logs.source, logs.check)
        wanted: dict[TopicPartition, set[int]] = defaultdict(set)
        for question in begun:
            if isinstance(offset := offsets[question], int):
                wanted[question.at].add(offset)
        by_asked = {
            at: [
                mapped
                for progress in fed[at]
                for mapped in courses.get(progress.source, ())
                if not self._back or mapped.course.target == at
            ]
            for at in wanted
        }
        found = self._translated(by_asked, wanted, logs)
        missing = _MissingOffsets(self._link, self._contents, logs.source, back=self._back)
        answers: _ByQuestion = {}
        for question in questions:
            answer = partial(Answer, question=question, link=self._link.name)
            if not fed[question.at]:
                why, note = missing.reason(question.topic, question.partition)
                answers[question] = answer(offset=question.offset, why=why, note=note)
            elif isinstance(offset := offsets[question], int):
                places = tuple(each[offset] for _, each in found[question.at])
                if not places:
                    why, note = _why_none(fed[question.at])
                    answers[question] = answer(offset=offset, why=why, note=note)
                else:
                    several = _SEVERAL if len(places) > 1 else None
                    answers[question] = answer(offset=offset, places=places, note=several)
            else:
                note = f"the offset of that time cannot be looked up: {offset}"
                answers[question] = answer(offset=None, why=OffsetNote.UNREACHABLE, note=note)
        return answers

    def _fed(
        self, asked: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Sequence[PartitionProgress]]:
        """Returns the progress of the source partitions that lead to each requested partition."""
        found: dict[TopicPartition, list[PartitionProgress]] = {at: [] for at in asked}
        for at, progress in self._contents.partitions.items():
            for one in [outlet.at for outlet in progress.outlets] if self._back else [at]:
                if one in found:
                    found[one].append(progress)
        return found

    def _translated(
        self,
        by_asked: Mapping[TopicPartition, Sequence[MappedCourse]],
        wanted: Mapping[TopicPartition, Collection[int]],
        logs: LinkLogs,
    ) -> Found:
        one_course = partial(translate_course, logs=logs, back=self._back)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="translate") as pool:
            futures = [
                (at, mapped, pool.submit(one_course, mapped, wanted[at]))
                for at, each in by_asked.items()
                for mapped in each
            ]
            found: Found = {at: [] for at in by_asked}
            try:
                for at, mapped, future in futures:
                    found[at].append((mapped, future.result()))
            except BaseException:
                self._limit.over = True  # the other results are no longer needed
                raise
        if not self._back:
            fill_before(
                found, self._link, self._settings, self._connect, self._contents, logs.check
            )
        return found


def fill_before(
    found: Found,
    link: LinkSettings,
    settings: Settings,
    connect: Connect,
    contents: ProgressContents,
    check: Check,
) -> None:
    """Replaces offsets before a mirror's beginning if the reverse link translates them exactly.
    Keeps the others, even if a cluster of the reverse link does not answer. `contents`: of the
    link's progress topic. See reverse.py."""
    reverse_link = reverse_of(settings, link)
    missing = [
        (at, mapped.course.target, places, before)
        for at, courses in found.items()
        for mapped, places in courses
        if (before := [o for o, place in places.items() if place.why is OffsetNote.BEFORE])
    ]
    if reverse_link is None or not missing:
        return
    try:
        log = DirectiveLog(connect(link.target_admin), link.directives_topic)
        log.look()
        other = read_progress(reverse_link, connect)
        feeding: dict[TopicPartition, PartitionProgress] = {}  # by the partition that it feeds
        for at, target, _, _ in missing:
            begun = contents.partitions[at].begun
            there = origin_of(at, target, begun, log.directives, other)
            if there is not None:
                feeding[at] = there
        if not feeding:
            return
        logs = logs_of(reverse_link, connect, feeding.values(), check)
        mapped_back = mapped_courses(reverse_link, settings, other, feeding.values(), logs)
        for at, target, places, before in missing:
            if at in feeding and feeding[at].source == target:
                for mapped in mapped_back.get(target, ()):
                    known = translate_course(mapped, before, logs, back=True)
                    places |= {offset: place for offset, place in known.items() if place.exact}
    except CausewayError:
        return


def _why_none(fed: Iterable[PartitionProgress]) -> tuple[OffsetNote, str]:
    outlets = [outlet for progress in fed for outlet in progress.outlets]
    if not outlets:
        reasons = [progress.reason for progress in fed if progress.reason]
        return OffsetNote.NOT_BEGUN, "; ".join(["it is not mirrored so far", *reasons])
    if any(outlet.producer_id < 0 for outlet in outlets):
        note = "with causeway.delivery = at-least-once, offsets of records are not tracked"
        return OffsetNote.AT_LEAST_ONCE, note
    note = "keys decide the target partition of a record, so offsets cannot be translated"
    return OffsetNote.BY_KEY, note


class _MissingOffsets:
    """Says why the progress topic has no record of a partition."""

    def __init__(
        self, link: LinkSettings, contents: ProgressContents, source: ClusterLogs, *, back: bool
    ) -> None:
        self._link, self._source, self._back = link, source, back
        known = contents.partitions.values()
        self._names = {
            name
            for each in known
            for name in ([outlet.topic for outlet in each.outlets] if back else [each.topic])
        }
        self._counts: dict[str, int] | None = None  # partitions of each topic on the source
        self._failure = ""

    def reason(self, topic: str, partition: int) -> tuple[OffsetNote, str]:
        link, names = self._link, self._names
        if self._back:
            if topic in names:
                note = f"{link.name} has sent nothing to partition {partition}"
                return OffsetNote.UNKNOWN, note
            return OffsetNote.UNKNOWN, unknown("translate", "topic", topic, names).cause
        there = self._partitions()
        if topic in there and partition >= there[topic]:
            note = f"{topic} has {there[topic]} partitions, numbered from 0"
            return OffsetNote.UNKNOWN, note
        decision = link.decide_topic(topic)
        if topic in there and decision.target_name is None:
            return OffsetNote.NOT_MIRRORED, decision.reason
        if topic in there or topic in names:
            return OffsetNote.NOT_BEGUN, f"no driver has begun it yet{self._failure}"
        mine = {name for name in there.keys() | names if link.decide_topic(name).target_name}
        cause = unknown("translate", "topic", topic, mine).cause
        return OffsetNote.UNKNOWN, cause + self._failure

    def _partitions(self) -> dict[str, int]:
        """Returns the partition count of each topic of the source. The source is asked only
        once."""
        if self._counts is None:
            cluster = self._source.cluster
            try:
                if self._source.error is not None:
                    raise self._source.error  # it was asked a moment ago
                found = cluster.metadata(None).topics
                self._counts = {name: len(topic.partitions) for name, topic in found.items()}
            except CausewayError as error:
                self._counts = {}
                self._failure = f"; {cluster} cannot be asked: {error}"
        return self._counts


def _offsets(
    questions: Iterable[Question], logs: ClusterLogs, check: Check
) -> dict[Question, int | CausewayError]:
    """Returns the offset of each question. A time leads to its first record, or to the end if all
    records are earlier."""
    found: dict[Question, int | CausewayError] = {}
    by_time: dict[int, list[Question]] = defaultdict(list)
    for question in questions:
        if question.offset is not None:
            found[question] = question.offset
        elif logs.error is not None:
            found[question] = logs.error
        elif question.timestamp is not None:
            by_time[question.timestamp].append(question)
    for stamp, asked in by_time.items():
        try:
            check()
            places = [question.at for question in asked]
            there = logs.cluster.list_offsets(places, stamp, patience_s=PATIENCE_S)
        except CausewayError as error:
            found |= dict.fromkeys(asked, error)
            continue
        for question in asked:
            one = there[question.at]
            if not isinstance(one, OffsetAt):
                found[question] = one
            elif one.offset >= 0:
                found[question] = one.offset
            else:
                cause = "its end is not known"
                unknown_end = CausewayError("ask for", str(question.at), cause, retriable=True)
                found[question] = logs.ends.get(question.at, unknown_end)
    return found
