"""Fences: deny every write to topics of the source, so that their mirrors can reach an end.

    set     record the fence, with its end ─► DENY WRITE for everybody on the source
    lift    delete the DENY ─► delete the record
    shared  two links of a source that fence a topic share one DENY. It stays as long as one of them
            needs it. The record of the link that has set it names it. When that link lifts its
            fence, it hands the DENY over to the other link

The record, a directive, is written first and deleted last. So each of our rules on the source has a
record, and any process can lift it, even if the process that set it is gone. The record does not
name a rule that was there before, and that rule stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from causeway.cluster import AclBinding, Cluster, SecurityDisabled
from causeway.config import LinkSettings
from causeway.control.acls import EVERYBODY, Acls
from causeway.errors import (
    AuthenticationError,
    AuthorizationError,
    CausewayError,
    ConfigError,
    PartitionsFailedError,
    PrerequisiteError,
    UnreachableError,
)
from causeway.link_topics import (
    DirectiveLog,
    DirectivePlan,
    FenceAcl,
    FenceDirective,
    LinkDirectives,
    write_directives,
)
from causeway.model import ENDED

DENY_WRITE: Final = FenceAcl("DENY", "WRITE", EVERYBODY, "*")
_WRITES = ("WRITE", "ALL")
_PROMOTING_MS = 120_000  # the time that a promotion takes, with its groups
_SHARER_S: Final = 5.0  # the wait for the target of another link


@dataclass(frozen=True, slots=True, kw_only=True)
class FencePlan:
    """`acls`: the rules for each topic; none if everybody is denied already. `problems`: why a
    topic cannot be fenced."""

    acls: dict[str, tuple[FenceAcl, ...]]
    problems: dict[str, CausewayError]


def plan(acls: Acls, topics: Iterable[str], alias: str, *, open_by_default: bool) -> FencePlan:
    """Plans fences for `topics` of the cluster `alias`, which has these `acls`. `open_by_default`:
    it allows, or may allow, everything that no ACL is about."""
    found: dict[str, tuple[FenceAcl, ...]] = {}
    problems: dict[str, CausewayError] = {}
    for topic in topics:
        if isinstance(acls, SecurityDisabled):
            problems[topic] = PrerequisiteError(
                "fence",
                f"{topic} on {alias}",
                "the cluster has no authorizer, so no producer can be kept from writing",
                remedy="stop the producers by hand, and cut over without --fence: it waits until "
                "the topic stops growing, and names who still writes",
            )
        elif denies_writes(acls, topic):
            found[topic] = ()
        elif open_by_default and not any(_applies_to(acl, topic) for acl in acls):
            problems[topic] = ConfigError(
                "fence",
                f"{topic} on {alias}",
                "no ACL is about it, and allow.everyone.if.no.acl.found is set: a DENY would be "
                "the first, and shut out its readers as well, Causeway among them",
                remedy="give those who read and write it ACLs first, or stop its producers by hand "
                "and cut over without --fence",
            )
        else:
            found[topic] = (DENY_WRITE,)
    return FencePlan(acls=found, problems=problems)


def _applies_to(acl: AclBinding, topic: str) -> bool:
    if acl.pattern == "PREFIXED":
        return topic.startswith(acl.name)
    return acl.name in ("*", topic)


def denies_writes(acls: Acls, topic: str) -> bool:
    """Returns whether only super users may write to `topic`."""
    return not isinstance(acls, SecurityDisabled) and any(
        acl.permission == "DENY"
        and acl.operation in _WRITES
        and acl.principal == EVERYBODY
        and acl.host == "*"
        and _applies_to(acl, topic)
        for acl in acls
    )


def fences(
    directives: LinkDirectives, topics: Collection[str] | None = None
) -> dict[str, FenceDirective]:
    """Returns the recorded fences, by topic: all, or those of `topics`."""
    return {
        each.scope.topic: each
        for each in directives.all(FenceDirective)
        if each.scope.topic is not None and (topics is None or each.scope.topic in topics)
    }


def expired(directives: LinkDirectives, now_ms: int) -> tuple[FenceDirective, ...]:
    """Returns the fences whose time is over, by topic. `now_ms`: by the clock of the leading
    driver, which lifts them. If a mirror has ended, its fence is never over, because no mirror
    copies new records of the source. If a mirror is about to end, its fence gets more time."""

    def is_over(fence: FenceDirective) -> bool:
        end = directives.end_of(fence.scope)
        if end is not None and end.how in ENDED:
            return False
        return fence.until + (0 if end is None else _PROMOTING_MS) <= now_ms

    return tuple(each for _, each in sorted(fences(directives).items()) if is_over(each))


def refuse_lifted(directives: LinkDirectives, topics: Iterable[str], now_ms: int) -> None:
    """Raises PartitionsFailedError if one of these fences is lifted or over: producers go on, or
    will go on before the mirror has ended."""
    there = fences(directives)
    for topic in sorted(topics):
        if topic not in there or there[topic].until <= now_ms:
            cause = "its fence was lifted meanwhile, or is over"
            raise PartitionsFailedError("promote", topic, cause, retriable=True)


class Sharer(NamedTuple):
    """Another link of the same source."""

    target: Cluster
    link: LinkSettings


def set_up(
    source: Cluster,
    target: Cluster,
    link: LinkSettings,
    wishes: Sequence[FenceDirective],
    sharers: Collection[Sharer] = (),
) -> None:
    """Records and sets these fences. An existing fence gets the new end, and keeps the rules that
    it has set. If a sharer has set the rule, the sharer's fence ends no earlier. Raises
    ConflictError. After another CausewayError, the rules that were set are recorded, and are lifted
    when their time is over."""
    ends = {str(each.scope.topic): each.until for each in wishes if not each.acls}

    def prolonged(topic: str, fence: FenceDirective) -> FenceDirective | None:
        until = ends[topic]
        return fence.replace(until=until) if fence.acls and fence.until < until else None

    _change(sharers, ends, prolonged)

    def decide(directives: LinkDirectives) -> DirectivePlan:
        there = fences(directives)
        merged = [
            each.replace(acls=there[topic].acls or each.acls, at=there[topic].at)
            if (topic := each.scope.topic) in there
            else each
            for each in wishes
        ]
        return DirectivePlan(changes=tuple((each.key, each) for each in merged))

    changes = write_directives(target, link, decide).plan.changes
    answers = source.create_acls(
        [acl for _, each in changes if isinstance(each, FenceDirective) for acl in bindings(each)]
    )
    if isinstance(answers, SecurityDisabled):
        raise PrerequisiteError("fence", str(source), "the cluster has no authorizer any more")
    for error in answers.values():
        if error is not None:
            raise error


def _change(
    sharers: Collection[Sharer],
    topics: Collection[str],
    change: Callable[[str, FenceDirective], FenceDirective | None],
) -> set[str]:
    """Changes the sharers' fences of `topics`, each at the first sharer that has such a fence.
    Returns the topics of the changed fences. Leaves out a sharer whose target does not answer soon,
    or hides its directives: its cutover asks the source's brokers in any case."""
    done: set[str] = set()
    for target, link in sharers:
        left = set(topics) - done

        def decide(directives: LinkDirectives, left: set[str] = left) -> DirectivePlan:
            there = fences(directives, left)
            after = [each for t, f in sorted(there.items()) if (each := change(t, f)) is not None]
            return DirectivePlan(changes=tuple((each.key, each) for each in after))

        if not left:
            break
        try:
            target.bootstrap_check(_SHARER_S)
            log = DirectiveLog(target, link.directives_topic)
            log.look()
            if decide(log.directives).changes:
                written = write_directives(target, link, decide)
                done |= {str(scope.topic) for (_, scope), _ in written.plan.changes}
        except (UnreachableError, AuthenticationError, AuthorizationError):
            continue
    return done


def lift(
    source: Cluster,
    target: Cluster,
    link: LinkSettings,
    found: Collection[FenceDirective],
    sharers: Collection[Sharer] = (),
) -> dict[str, CausewayError | None]:
    """Lifts these fences. Returns, by topic, the error of each fence that stays. A fence that was
    renewed meanwhile stays recorded, and its owner sets it again. A rule that a sharer still needs
    stays on the source, and belongs to the sharer from now on. Raises ConflictError, and
    CausewayError if a cluster does not answer. May be repeated."""
    if not found:
        return {}
    rules = {str(fence.scope.topic): fence.acls for fence in found if fence.acls}
    handed = _change(
        sharers, rules, lambda topic, theirs: theirs.replace(acls=theirs.acls or rules[topic])
    )
    doomed = {
        topic: [] if topic in handed else bindings(fence)
        for fence in found
        for topic in (str(fence.scope.topic),)
    }
    answers = source.delete_acls([acl for each in doomed.values() for acl in each])
    if isinstance(answers, SecurityDisabled):
        answers = {}  # without an authorizer there is no rule either
    results = {
        topic: next((error for acl in each if (error := answers.get(acl)) is not None), None)
        for topic, each in doomed.items()
    }
    gone = [fence for fence in found if results[str(fence.scope.topic)] is None]

    def decide(directives: LinkDirectives) -> DirectivePlan:
        still = [fence for fence in gone if directives.by_key.get(fence.key) == fence]
        return DirectivePlan(changes=tuple((fence.key, None) for fence in still))

    if gone:
        write_directives(target, link, decide)
    return results


def bindings(fence: FenceDirective) -> list[AclBinding]:
    """Returns the rules that a fence has set on the source."""
    return [
        AclBinding(
            resource_type="TOPIC",
            name=str(fence.scope.topic),
            pattern="LITERAL",
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission=each.permission,
        )
        for each in fence.acls
    ]
