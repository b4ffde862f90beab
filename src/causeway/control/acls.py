"""ACLs of mirrored topics: copied from the source by MirrorMaker 2's rules, and read-only mirrors.

    on the source                            on the mirror
    ALLOW WRITE                              -
    ALLOW ALL                                ALLOW READ
    anything else, LITERAL on the topic      the same
    PREFIXED, or LITERAL on `*`              - (they are about names, which differ on the target)
    DENY that stops, or may stop, Causeway   - (reported as a problem)

Rules are only added. If the source has lost a rule, it stays on the target, as with MirrorMaker 2:
by then, a person may want it there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from causeway.cluster import AclBinding, Cluster, SecurityDisabled
from causeway.config import LinkSettings
from causeway.control.topics import MirroredTopic
from causeway.errors import CausewayError, ConfigError

EVERYBODY = "User:*"
_WRITES = ("WRITE", "ALL")

Acls = frozenset[AclBinding] | SecurityDisabled


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAcls:
    """All ACLs on topics of both clusters."""

    source: Acls
    target: Acls


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutAcl:
    """An ACL of the source on a mirrored topic that is not copied."""

    acl: AclBinding
    reason: str

    @property
    def is_missed(self) -> bool:
        """Whether a person may want a similar ACL on the target."""
        return _is_about_names(self.acl) and not _is_allowed_write(self.acl)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan:
    """`notes`: why there is nothing to do, if that is no problem. `problems`: for a person to
    solve."""

    creates: tuple[AclBinding, ...] = ()
    left_out: tuple[LeftOutAcl, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[CausewayError, ...] = ()


def observe(source: Cluster, target: Cluster, link: LinkSettings) -> ObservedAcls:
    """Asks both clusters, the source only if its ACLs are copied.

    Raises AuthorizationError without DESCRIBE on a cluster, else a CausewayError.
    """
    copying = link.control.sync_topic_acls_enabled
    return ObservedAcls(
        source=source.describe_acls() if copying else frozenset(), target=target.describe_acls()
    )


def plan(observed: ObservedAcls, mirrored: Iterable[MirroredTopic], link: LinkSettings) -> AclPlan:
    """Decides purely: the same answer for the same observation, sorted. A topic of the source has
    several mirrors if a transform leads its records to more topics."""
    disabled = [
        f"{acls.cluster} has no authorizer, so no ACLs are copied"
        for acls in (observed.source, observed.target)
        if isinstance(acls, SecurityDisabled)
    ]
    if isinstance(observed.target, SecurityDisabled):
        return AclPlan(notes=tuple(disabled))
    mirrors: defaultdict[str, list[str]] = defaultdict(list)
    for topic in mirrored:
        mirrors[topic.source].append(topic.target)
    names = sorted(mirrors)
    creates: set[AclBinding] = set()
    left_out: list[LeftOutAcl] = []
    problems: list[CausewayError] = []
    if link.control.sync_topic_acls_enabled and not isinstance(observed.source, SecurityDisabled):
        for acl in sorted(observed.source, key=str):
            reason = _why_not(acl, names, link)
            if reason:
                left_out.append(LeftOutAcl(acl=acl, reason=reason))
            elif acl.pattern == "LITERAL" and acl.name in mirrors:
                reads_only = acl.permission == "ALLOW" and acl.operation == "ALL"
                operation = "READ" if reads_only else acl.operation
                creates |= {replace(acl, name=n, operation=operation) for n in mirrors[acl.name]}
        problems += [
            _denial_problem(each.acl, link) for each in left_out if _may_stop_us(each.acl, link)
        ]
    if link.control.read_only_mirrors:
        denies, open_to_all = _read_only(chain(*mirrors.values()), observed.target | creates, link)
        creates |= denies
        problems += open_to_all
    return AclPlan(
        creates=tuple(sorted(creates - observed.target, key=str)),
        left_out=tuple(left_out),
        notes=tuple(disabled),
        problems=tuple(problems),
    )


def _why_not(acl: AclBinding, mirrored: Sequence[str], link: LinkSettings) -> str:
    """Returns why an ACL for one of the (sorted) topics is not copied; '' if it is."""
    at = bisect_left(mirrored, acl.name)
    first = mirrored[at] if at < len(mirrored) else ""  # the first topic with this prefix, if any
    if acl.name == "*" and acl.pattern == "LITERAL":
        applies = bool(mirrored)
    elif acl.pattern == "PREFIXED":
        applies = bool(first) and first.startswith(acl.name)
    else:
        applies = first == acl.name
    if not applies:
        return ""
    if _is_about_names(acl):
        why = "only LITERAL ACLs on a topic are copied"
        if link.policy.chooses_names:
            return why  # no prefix covers all names that the policy may choose
        prefix = link.policy.format_remote_topic(link.source.alias, acl.name.removesuffix("*"))
        return f"{why}; on {link.target.alias} it would be PREFIXED {prefix!r}"
    if _is_allowed_write(acl):
        return "a mirror is written by its mirror only"
    return "it would stop Causeway itself, or may stop it" if _may_stop_us(acl, link) else ""


def _is_about_names(acl: AclBinding) -> bool:
    """Returns whether the ACL is about names, not about one topic."""
    return acl.pattern == "PREFIXED" or acl.name == "*"


def _is_allowed_write(acl: AclBinding) -> bool:
    return acl.permission == "ALLOW" and acl.operation == "WRITE"


def _may_stop_us(acl: AclBinding, link: LinkSettings) -> bool:
    """Returns whether a DENY stops, or may stop, Causeway, which needs every operation on its
    mirrors except DELETE. If Causeway's principal is not known, it may be any principal."""
    if (
        acl.permission != "DENY"
        or acl.operation == "DELETE"
        or acl.pattern != "LITERAL"
        or acl.name == "*"
    ):
        return False
    ourselves = _own_principals(link)
    return acl.principal == EVERYBODY or ourselves is None or acl.principal in ourselves


def _own_principals(link: LinkSettings) -> frozenset[str] | None:
    """Returns our principals on the target: those of the file, else the users that we log in as.
    None if only the broker knows the principal of a certificate or a token."""
    if link.control.principal is not None:
        return frozenset({link.control.principal})
    users = {
        "ANONYMOUS"
        if client.protocol == "PLAINTEXT"
        else None
        if client.sasl is None or client.sasl.oauth is not None
        else client.sasl.username
        for client in (link.target, link.target_admin)
    }
    return frozenset(f"User:{user}" for user in users if user) if all(users) else None


def _denial_problem(acl: AclBinding, link: LinkSettings) -> CausewayError:
    cause = "it would stop Causeway itself from mirroring the topic"
    remedy = "deny it on the target to single principals instead"
    if acl.principal != EVERYBODY and _own_principals(link) is None:
        cause = "that may be Causeway itself"
        remedy = "set causeway.principal to the principal of Causeway there"
    return ConfigError("copy ACL", f"{acl} to {link.target.alias}", cause, remedy=remedy)


def _read_only(
    mirrors: Iterable[str], acls: Collection[AclBinding], link: LinkSettings
) -> tuple[set[AclBinding], list[CausewayError]]:
    """Returns a DENY for each other principal that an ACL lets write to a mirror, and the ACLs that
    let everybody write. A DENY for all would also stop Causeway: a DENY beats each ALLOW."""
    allowing = _ByName(a for a in acls if a.permission == "ALLOW" and a.operation in _WRITES)
    denying = _ByName(
        a for a in acls if a.permission == "DENY" and a.operation in _WRITES and a.host == "*"
    )
    denies: set[AclBinding] = set()
    open_to_all: set[AclBinding] = set()
    for mirror in mirrors:
        barred = {acl.principal for acl in denying.that_apply_to(mirror)}
        if EVERYBODY in barred:
            continue
        writers = list(allowing.that_apply_to(mirror))
        open_to_all.update(acl for acl in writers if acl.principal == EVERYBODY)
        denies.update(
            AclBinding(
                resource_type="TOPIC",
                name=mirror,
                pattern="LITERAL",
                principal=principal,
                host="*",
                operation="WRITE",
                permission="DENY",
            )
            for principal in {acl.principal for acl in writers} - barred
            if principal not in (EVERYBODY, link.control.principal)
        )
    us = link.control.principal or "Causeway"
    return denies, [
        ConfigError(
            "make mirrors read-only against ACL",
            f"{acl} on {link.target.alias}",
            f"it lets everybody write, and a DENY for everybody would stop {us} too: a DENY beats"
            " every ALLOW",
            remedy="replace it by ACLs that name principals",
        )
        for acl in sorted(open_to_all, key=str)
    ]


def read_only_denials(
    acls: Acls, mirrors: Iterable[str], link: LinkSettings
) -> tuple[AclBinding, ...]:
    """Returns the denials among the target's `acls` that make these topics read-only, as `plan`
    would add them, sorted. Returns none unless the file asks for read-only mirrors."""
    if isinstance(acls, SecurityDisabled) or not link.control.read_only_mirrors:
        return ()
    names = set(mirrors)
    ours = {
        acl
        for acl in acls
        if acl.name in names
        and (acl.pattern, acl.permission, acl.operation) == ("LITERAL", "DENY", "WRITE")
        and acl.host == "*"
        and acl.principal != EVERYBODY
    }
    denies, _ = _read_only(names, acls - ours, link)
    return tuple(sorted(ours & denies, key=str))


def remove_denials(denies: Collection[AclBinding], target: Cluster) -> None:
    """Deletes the denials, so that others may write. Raises the first CausewayError."""
    answers = target.delete_acls(denies) if denies else {}
    for error in {} if isinstance(answers, SecurityDisabled) else answers.values():
        if error is not None:
            raise error


class _ByName:
    """ACLs on topics, found fast by a topic's name."""

    def __init__(self, acls: Iterable[AclBinding]) -> None:
        self._found: dict[tuple[str, str], list[AclBinding]] = defaultdict(list)
        for acl in acls:
            self._found[acl.pattern, acl.name].append(acl)

    def that_apply_to(self, topic: str) -> Iterator[AclBinding]:
        keys = [("LITERAL", topic), ("LITERAL", "*")]
        keys += [("PREFIXED", topic[:length]) for length in range(len(topic) + 1)]
        for key in keys:
            yield from self._found.get(key, ())


def apply(
    creates: Collection[AclBinding], target: Cluster
) -> dict[AclBinding, CausewayError | None]:
    """Adds `creates` in bulk. The result has the error of each, or None if it is done."""
    try:
        answers = target.create_acls(creates)
    except CausewayError as error:
        return dict.fromkeys(creates, error)
    if isinstance(answers, SecurityDisabled):
        gone = CausewayError("create ACLs", f"on {target}", "it has no authorizer any more")
        return dict.fromkeys(creates, gone)
    return answers
