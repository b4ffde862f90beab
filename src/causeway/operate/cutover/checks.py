"""Checks before anything is changed: rights, configs, disks, groups, producers."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from causeway.cluster import (
    Cluster,
    SecurityDisabled,
    active_producers,
    cluster_rights,
    disks,
)
from causeway.config import LinkSettings
from causeway.control import (
    CreateTopic,
    FencePlan,
    GrowTopic,
    MirroredTopic,
    TopicPlan,
    collisions,
    configs,
    fences,
    groups,
    topic_changes,
    topics,
)
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import DirectiveLog, ProgressTopic, Scope
from causeway.model import TopicPartition, age_ms
from causeway.operate.cutover.report import count, named
from causeway.operate.cutover.values import Check, CheckMark, Wishes
from causeway.operate.cutover.watch import transactional_names

_LEAST_FREE: Final = 0.05  # the smallest share of a target's disk that must be free
_LATELY_MS: Final = 3_600_000
_PROGRESS = re.compile(r"^__causeway\..+\.progress$", re.MULTILINE)
_OPEN_BY_DEFAULT = "allow.everyone.if.no.acl.found"


def chosen(link: LinkSettings, source: Cluster, target: Cluster) -> TopicPlan:
    """Returns the topics that the link mirrors by now. Raises CausewayError."""
    progress = ProgressTopic(target, link.progress_topic)
    begun = collisions.begun_by(progress.read().partitions.values()) if progress.exists() else {}
    return topics.plan(topics.observe(source, target, link), link, begun)


def checks(
    link: LinkSettings,
    source: Cluster,
    target: Cluster,
    planned: TopicPlan,
    names: Collection[str],
    wishes: Wishes,
    fenced: Collection[str],
    reverse: LinkSettings | None,
) -> tuple[Check, ...]:
    """Returns the checks of the topics `names`, some of which we have `fenced` already. `reverse`:
    see reverse_of. Sends many requests, changes nothing. Raises CausewayError if a cluster does not
    answer at all."""
    mirrored = [topic for topic in planned.mirrored if topic.source in names]
    partitions = [TopicPartition(t.source, n) for t in mirrored for n in range(t.partitions)]
    return (
        *_topics(link, planned, mirrored, names),
        *_configs(link, source, target, planned, mirrored),
        *(_way_back(link, reverse, mirrored) if wishes.back else ()),
        *(_fence(source, names, fenced) if wishes.fence else ()),
        *_disks(target),
        *_groups(link, source, names, wishes),
        *_producers(source, partitions),
    )


def _topics(
    link: LinkSettings,
    planned: TopicPlan,
    mirrored: Collection[MirroredTopic],
    names: Collection[str],
) -> Iterator[Check]:
    there = {topic.source for topic in mirrored if topic.target_id is not None}
    held = f"; none is made, {topic_changes.why_paused(link)}" if link.records_paused else ""
    for name in sorted(set(names) - there):
        reason = next(
            (str(problem.error) for problem in planned.problems if problem.topic == name),
            f"it has no mirror yet{held}",
        )
        yield Check("topics", CheckMark.BAD, f"{name}: {reason}")
    if link.records_paused:
        targets = {topic.target: topic.source for topic in mirrored}
        for change in planned.changes:
            if isinstance(change, GrowTopic) and change.topic in targets:
                parts = f"{change.before} of {change.partitions} partitions"
                text = f"{targets[change.topic]}: its mirror has {parts}"
                text += f"; none is added, {topic_changes.why_paused(link)}"
                yield Check("topics", CheckMark.BAD, text)
    many = sum(topic.partitions for topic in mirrored)
    text = f"{count(len(mirrored), 'topic')} with {count(many, 'partition')}"
    yield Check("topics", CheckMark.GOOD, text)


def _configs(
    link: LinkSettings,
    source: Cluster,
    target: Cluster,
    planned: TopicPlan,
    mirrored: Collection[MirroredTopic],
) -> Iterator[Check]:
    targets = {topic.target for topic in mirrored}
    late = {
        change.topic
        for change in planned.changes
        if change.topic in targets
        and not isinstance(change, CreateTopic)
        and not link.records_paused  # then nothing is changed
    }
    if link.sync_topic_configs_enabled:
        there = [topic for topic in mirrored if topic.target_id is not None]
        found = configs.plan(configs.observe(source, target, there), there, link)
        late |= {change.topic for change in found.changes}
        for problem in found.problems:
            yield Check("configs", CheckMark.NOTE, f"{problem.topic}: {problem.error}")
    for topic in sorted(late):
        text = f"{topic} will be changed to be like its source (`causeway plan` shows how)"
        yield Check("configs", CheckMark.NOTE, text)
    for one in mirrored:
        for note in one.notes:
            yield Check("configs", CheckMark.NOTE, f"{one.target}: {note}")


def _way_back(
    link: LinkSettings, reverse: LinkSettings | None, mirrored: Collection[MirroredTopic]
) -> Iterator[Check]:
    """Checks whether the reverse link can go on where this link ends."""
    way = f"{link.target.alias}->{link.source.alias}"
    if reverse is None:
        text = f"the file has no flow {way} (docs/how-to/failover.md shows which lines it needs)"
        yield Check("reverse link", CheckMark.BAD, text)
        return
    renamed = [topic.source for topic in mirrored if topic.target != topic.source]
    if renamed:
        text = f"{named(renamed)}: its mirror has another name, so {way} cannot bring it back"
        yield Check("reverse link", CheckMark.BAD, text)
    left = [t.source for t in mirrored if reverse.as_begun(t.target).target_name != t.source]
    if left and not renamed:
        text = f"{named(left)}: {way} does not mirror it, or under another name"
        yield Check("reverse link", CheckMark.BAD, text)


def _fence(source: Cluster, names: Collection[str], fenced: Collection[str]) -> Iterator[Check]:
    # A fence keeps everybody from writing, Causeway too: another mirror into the topic would stop.
    for topic in _PROGRESS.findall("\n".join(sorted(source.metadata(None).topics))):
        try:
            contents = ProgressTopic(source, topic).read()
            log = DirectiveLog(source, topic.removesuffix(".progress") + ".directives")
            log.look()
        except CausewayError as error:
            yield Check("fence", CheckMark.NOTE, f"not known who mirrors here: {error}")
            continue
        written = {
            outlet.topic
            for at, each in contents.partitions.items()
            for outlet in each.outlets
            if not log.directives.has_ended(Scope(at.topic))
        }
        if found := sorted(written & set(names)):
            text = f"{named(found)} cannot be fenced: mirrors are written there ({topic})"
            yield Check("fence", CheckMark.BAD, text)
    # To set and to lift a fence, Causeway needs ALTER.
    ours = cluster_rights(source)
    if ours is None:
        text = f"{source} does not show our rights there; a fence needs ALTER on the cluster"
        yield Check("rights", CheckMark.NOTE, text)
    elif lacking := [each for each in ("ALTER", "DESCRIBE") if each not in ours]:
        text = f"to fence, grant our user {' and '.join(lacking)} on the cluster {source}"
        yield Check("rights", CheckMark.BAD, text)
    try:
        planned = plan_fence(source, set(names) - set(fenced))
    except CausewayError as error:
        yield Check("fence", CheckMark.BAD, str(error))
        return
    said: dict[str, list[str]] = defaultdict(list)
    for topic, problem in planned.problems.items():
        said[f"{problem.cause} ({problem.remedy})"].append(topic)
    for why, some in said.items():
        text = f"{named(some)} cannot be fenced: {why}"
        yield Check("fence", CheckMark.BAD, text)
    theirs = sorted(topic for topic, acls in planned.acls.items() if not acls)
    if theirs:
        text = f"{named(theirs)}: an ACL that is not ours denies WRITE to everybody already"
        yield Check("fence", CheckMark.NOTE, text)


def plan_fence(source: Cluster, names: Collection[str]) -> FencePlan:
    """Returns how `names` can be fenced on `source`. Raises CausewayError."""
    acls = source.describe_acls()
    is_open = not isinstance(acls, SecurityDisabled) and _open_by_default(source)
    return fences.plan(acls, names, str(source), open_by_default=is_open)


def _open_by_default(source: Cluster) -> bool:
    """Returns whether a broker allows, or may allow, everybody what no ACL is about: it names the
    setting, but may hide the value."""
    node = min(source.metadata([]).brokers, default=-1)
    try:
        entry = source.broker_configs(node).get(_OPEN_BY_DEFAULT)
    except CausewayError:
        return True  # we may not read it
    return entry is not None and (entry.value is None or entry.value.lower() != "false")


def _disks(target: Cluster) -> Iterator[Check]:
    """Checks whether each disk of the target has room. The whole disk counts, not only Kafka's
    logs."""
    try:
        found = disks(target)
    except CausewayError as error:
        yield Check("disk", CheckMark.NOTE, f"not known: {error}")
        return
    free: list[tuple[int, float]] = []
    silent = set()
    for each in found:
        if each.usable is None or not each.total:
            silent.add(each.broker)
            continue
        share = each.usable / each.total
        free.append((each.usable, share))
        if share < _LEAST_FREE:
            text = (
                f"broker {each.broker} of {target} has {_size(each.usable)} of {_size(each.total)} "
                f"left on the disk of {each.path}"
            )
            yield Check("disk", CheckMark.BAD, text)
    if silent or not found:
        who = f"broker {', '.join(map(str, sorted(silent)))} of {target}" if free else str(target)
        text = f"{who} does not show the size and the use of its disks: Kafka does since 3.3"
        yield Check("disk", CheckMark.NOTE, text)
    if free:
        usable, share = min(free, key=lambda one: one[1])
        text = f"at least {share:.0%} of each disk free on {target}, {_size(usable)}"
        yield Check("disk", CheckMark.GOOD, text)


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _groups(
    link: LinkSettings, source: Cluster, names: Collection[str], wishes: Wishes
) -> Iterator[Check]:
    listing = source.list_groups()
    everybody = source.committed_offsets_of(list(listing)) if listing else {}
    readers = {
        name
        for name, commits in everybody.items()
        if not isinstance(commits, CausewayError) and any(at.topic in names for at in commits)
    }
    for name in sorted((wishes.left_groups | wishes.reset_groups) - readers):
        text = f"{name} has committed nothing on these topics"
        yield Check("groups", CheckMark.NOTE, text)
    followed = set(groups.choose(listing, link).groups)
    left = sorted(readers - followed)
    if left:
        text = f"the file leaves out {named(left)}: start them on the target at offsets of yours"
        yield Check("groups", CheckMark.NOTE, text)
    moving = len((readers & followed) - wishes.left_groups)
    yield Check("groups", CheckMark.GOOD, count(moving, "group"))


def _producers(source: Cluster, partitions: Collection[TopicPartition]) -> Iterator[Check]:
    """Names the producers that have written within the last hour, by the records' times."""
    now_ms = int(time.time() * 1000)
    found = active_producers(source, partitions) if partitions else {}
    hidden = [each for each in found.values() if isinstance(each, CausewayError)]
    if hidden:
        yield Check("producers", CheckMark.NOTE, f"not all are known: {hidden[-1]}")
    lately = sorted(
        {
            each.producer_id
            for answer in found.values()
            if not isinstance(answer, CausewayError)
            for each in answer
            # A time that gives no age may be within this hour.
            if (age := age_ms(each.last_timestamp, now_ms)) is None or age <= _LATELY_MS
        }
    )
    names = transactional_names(source, lately)
    words = [f"{one} ({names[one]})" if one in names else str(one) for one in lately]
    text = count(len(lately), "producer") + " in the last hour"
    text += f", id {named(words)}" if words else ""
    yield Check("producers", CheckMark.GOOD, text)


def refuse_unfit(names: Collection[str], link: LinkSettings) -> None:
    """Raises ConfigError for a topic that only mirrors write to."""
    policy = link.policy
    for name in names:
        if policy.is_heartbeats_topic(name) or policy.is_internal_topic(name):
            cause = "mirrors themselves write it, and go on"
            raise ConfigError("cut over", f"topic {name}", cause)


def mirrors_of(link: LinkSettings, planned: TopicPlan) -> dict[str, str]:
    """Returns the mirrors of topics that have producers, by name on the source."""
    return {
        one.source: one.target
        for one in planned.mirrored
        if not link.policy.is_heartbeats_topic(one.source)
    }
