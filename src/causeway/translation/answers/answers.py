"""Answers to many questions at once: by link, each log read once for all that is asked of it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from causeway.cluster import Connect, OffsetAt, clusters
from causeway.config import LinkSettings, Settings
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics.progress import Progress
from causeway.model import TopicPartition
from causeway.operate.directives.scopes import links_of, unknown
from causeway.translation.answers import after_failback
from causeway.translation.answers import back as way_back
from causeway.translation.answers import forward as way_there
from causeway.translation.answers.courses import PATIENCE_S, Book, Course, Side, courses, sides
from causeway.translation.answers.values import Answer, Place, Question, Why
from causeway.translation.reverse_lookup import Check

_AT_ONCE = 8  # courses whose logs are read
# Of a link that has no such mirror, where another may have it: what tells most first.
_NOTHING_THERE = (Why.NOT_BEGUN, Why.NOT_MIRRORED, Why.UNKNOWN)
_TRANSLATE = "translate offsets of"

# Of one link: what a question comes to.
_Found = dict[Question, Answer]


def translate(
    settings: Settings,
    questions: Iterable[Question],
    *,
    link: str | None = None,
    back: bool = False,
    patience_s: float | None = None,
) -> tuple[Answer, ...]:
    """Where consumers that keep their own offsets go on: on the target, for places on the source;
    with `back` on the source, for places on the target.

    In the order of the questions; one answer for each link that has the topic, or of `link` alone.
    Asks the clusters only, no driver. With the source cluster gone, what the progress topic can
    tell is answered, the rest says so. Takes up to ten seconds for a cluster that does not answer;
    what else takes longer than `patience_s`, as it has to be counted in the logs, is not exact.
    Of several links, one whose target cannot be asked says so in its answers (UNREACHABLE). Raises
    ConfigError for an unknown link, or a question without an offset or a time; CausewayError where
    no target can be asked.
    """
    asked = list(questions)
    for question in asked:
        _check(question)
    links = links_of(settings, link, "translate")
    with clusters() as connect:
        limit = _Limit(patience_s)
        found: list[_Found] = []
        errors: dict[str, CausewayError] = {}
        for each in links:
            try:
                found.append(_of_link(each, settings, asked, connect, limit, back=back))
            except CausewayError as error:
                errors[each.name] = error
                found.append(_not_asked(each, asked, error, back=back))
        if len(errors) == len(links):
            raise errors[links[0].name]
    answers: list[Answer] = []
    for question in asked:
        of_links = [one[question] for one in found if question in one]
        mirrored = [one for one in of_links if one.why not in _NOTHING_THERE]
        if back and any(one.link not in errors for one in mirrored):
            # Which topics a target has, only that tells.
            mirrored = [one for one in mirrored if one.link not in errors]
        answers += mirrored or [min(of_links, key=_least_told)]
    return tuple(answers)


def _not_asked(
    link: LinkSettings, questions: Iterable[Question], error: CausewayError, *, back: bool
) -> _Found:
    """Of a link whose target does not answer: about what it mirrors, as far as the file tells."""
    return {
        question: Answer(
            question=question,
            link=link.name,
            offset=question.offset,
            why=Why.UNREACHABLE,
            note=f"{link.target.alias} cannot be asked: {error}",
        )
        for question in questions
        if back or link.decide_topic(question.topic).target_name is not None
    }


class _Limit:
    """How long logs are read."""

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = patience_s
        self._until = None if patience_s is None else time.monotonic() + patience_s
        self.over = False

    def check(self) -> None:
        """Raises CausewayError where it is time to end."""
        if self.over or (self._until is not None and time.monotonic() > self._until):
            cause = f"it takes longer than {self._patience_s} s to count in the logs"
            remedy = "causeway translate takes the time that it needs"
            raise CausewayError("look up offsets", cause=cause, remedy=remedy, retriable=True)


def _least_told(answer: Answer) -> int:
    return _NOTHING_THERE.index(answer.why or Why.UNKNOWN)


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


def _of_link(
    link: LinkSettings,
    settings: Settings,
    questions: Sequence[Question],
    connect: Connect,
    limit: _Limit,
    *,
    back: bool,
) -> _Found:
    book = Book.read(link, connect)
    if back:
        all_fed = book.by_target()
    else:
        all_fed = {at: [progress] for at, progress in book.contents.partitions.items()}
    fed = {question.at: all_fed.get(question.at, []) for question in questions}
    known = {progress.source: progress for each in fed.values() for progress in each}.values()
    source, target = sides(link, connect, known)
    by_source = courses(book, settings, known, source, target)
    begun = [question for question in questions if fed[question.at]]
    offsets = _offsets(begun, target if back else source, limit.check)
    wanted: dict[TopicPartition, set[int]] = defaultdict(set)
    for question in begun:
        if isinstance(offset := offsets[question], int):
            wanted[question.at].add(offset)
    by_asked: dict[TopicPartition, list[Course]] = {
        at: [
            course
            for progress in fed[at]
            for course in by_source.get(progress.source, ())
            if not back or course.target == at
        ]
        for at in wanted
    }
    places = _places(by_asked, wanted, source, target, link, limit, back=back)
    if not back:
        after_failback.fill(places, by_asked, book, settings, connect, limit.check)
    found: _Found = {}
    strangers = _Strangers(book, source, back=back)
    for question in questions:
        if not fed[question.at]:
            found[question] = strangers.answer(question)
        elif isinstance(offset := offsets[question], int):
            found[question] = _answer(question, offset, link, fed[question.at], places)
        else:
            found[question] = Answer(
                question=question,
                link=link.name,
                offset=None,
                why=Why.UNREACHABLE,
                note=f"which offset that time stands for cannot be looked up: {offset}",
            )
    return found


def _places(
    by_asked: Mapping[TopicPartition, Sequence[Course]],
    wanted: Mapping[TopicPartition, Collection[int]],
    source: Side,
    target: Side,
    link: LinkSettings,
    limit: _Limit,
    *,
    back: bool,
) -> dict[TopicPartition, list[dict[int, Place]]]:
    translated = way_back.places if back else way_there.places
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="translate") as pool:
        futures = {
            at: [
                pool.submit(
                    translated,
                    course,
                    wanted[at],
                    source,
                    target,
                    limit.check,
                    read_committed=link.fetch.read_committed,
                )
                for course in each
            ]
            for at, each in by_asked.items()
        }
        try:
            return {at: [one.result() for one in each] for at, each in futures.items()}
        except BaseException:
            limit.over = True  # nobody waits for the others
            raise


def _answer(
    question: Question,
    offset: int,
    link: LinkSettings,
    fed: Sequence[Progress],
    places: Mapping[TopicPartition, Sequence[Mapping[int, Place]]],
) -> Answer:
    there = tuple(each[offset] for each in places[question.at])
    why, note = (None, None) if there else _why_none(fed)
    if len(there) > 1:
        note = "records went to several places, or came from several: each has one of its own"
    return Answer(
        question=question, link=link.name, offset=offset, places=there, why=why, note=note
    )


def _why_none(fed: Iterable[Progress]) -> tuple[Why, str]:
    outlets = [outlet for progress in fed for outlet in progress.outlets]
    if not outlets:
        reasons = [progress.reason for progress in fed if progress.reason]
        return Why.NOT_BEGUN, "; ".join(["it is not mirrored so far", *reasons])
    if any(outlet.producer_id < 0 for outlet in outlets):
        note = "with causeway.delivery = at-least-once nothing tells where a record went"
        return Why.AT_LEAST_ONCE, note
    note = "keys decide to which partition of the target a record goes, so offsets have no places"
    return Why.BY_KEY, note


class _Strangers:
    """Of what nothing stands in the progress topic: why not."""

    def __init__(self, book: Book, source: Side, *, back: bool) -> None:
        self._book, self._source, self._back = book, source, back
        partitions = book.contents.partitions
        self._names = book.target_topics() if back else {at.topic for at in partitions}
        self._counts: dict[str, int] | None = None  # of partitions on the source
        self._trouble = ""

    def answer(self, question: Question) -> Answer:
        why, note = self._reason(question.topic, question.partition)
        link = self._book.link.name
        return Answer(question=question, link=link, offset=question.offset, why=why, note=note)

    def _reason(self, topic: str, partition: int) -> tuple[Why, str]:
        link, names = self._book.link, self._names
        if self._back:
            if topic in names:
                return Why.UNKNOWN, f"{link.name} has sent nothing to partition {partition}"
            return Why.UNKNOWN, unknown("translate", "topic", topic, names).cause
        there = self._partitions()
        if topic in there and partition >= there[topic]:
            return Why.UNKNOWN, f"{topic} has {there[topic]} partitions, numbered from 0"
        decision = link.decide_topic(topic)
        if topic in there and decision.target_name is None:
            return Why.NOT_MIRRORED, decision.reason
        if topic in there or topic in names:
            return Why.NOT_BEGUN, f"no driver has begun it yet{self._trouble}"
        mine = {name for name in there.keys() | names if link.decide_topic(name).target_name}
        return Why.UNKNOWN, unknown("translate", "topic", topic, mine).cause + self._trouble

    def _partitions(self) -> dict[str, int]:
        """How many each topic of the source has; asked once."""
        if self._counts is None:
            cluster = self._source.cluster
            try:
                if self._source.error is not None:
                    raise self._source.error  # it was asked a moment ago
                found = cluster.metadata(None).topics
                self._counts = {name: len(topic.partitions) for name, topic in found.items()}
            except CausewayError as error:
                self._counts = {}
                self._trouble = f"; {cluster} cannot be asked: {error}"
        return self._counts


def _offsets(
    questions: Iterable[Question], side: Side, check: Check
) -> dict[Question, int | CausewayError]:
    """What each stands for: a time for its first record or, where there is none so late, the
    end."""
    found: dict[Question, int | CausewayError] = {}
    by_time: dict[int, list[Question]] = defaultdict(list)
    for question in questions:
        if question.offset is not None:
            found[question] = question.offset
        elif side.error is not None:
            found[question] = side.error
        elif question.timestamp is not None:
            by_time[question.timestamp].append(question)
    for stamp, asked in by_time.items():
        try:
            check()
            places = [question.at for question in asked]
            there = side.cluster.list_offsets(places, stamp, patience_s=PATIENCE_S)
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
                found[question] = side.ends.get(question.at, unknown_end)
    return found
