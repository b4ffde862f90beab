"""Finds conflicts with other flows: loops, and target topics that other flows write as well.

The progress topics on a cluster show the flows of other files: their sources and the names of their
mirrors. They do not show loops over a third cluster. Loops within one file are found when the file
is read (config/reading/circles.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from causeway.cluster import Cluster
from causeway.config import LinkSettings
from causeway.control import TopicProblem
from causeway.errors import CausewayError, ConfigError
from causeway.link_topics import ProgressTopic
from causeway.model import ENDED
from causeway.naming import PROGRESS
from causeway.operate.plan.link_plan import LinkPlan
from causeway.operate.plan.starts import GROUP_RULE

_SHOWN: Final = 3  # topics in a message


def loops(
    link: LinkSettings, source: Cluster, target: Cluster, names: Collection[str]
) -> Iterator[str]:
    """Yields a warning for each flow of another file that brings topics to the source which the
    link would mirror back. `names`: all topics on the source."""
    if link.has_provenance or link.way_back or target.cluster_id is None:
        return  # headers show the origin of a record, or nothing is mirrored back without a request
    for name in sorted(names):
        if PROGRESS.fullmatch(name) is None:
            continue
        try:
            contents = ProgressTopic(source, name).read(maps=False)
        except CausewayError:
            continue  # not readable for this principal
        if contents.clusters.source != target.cluster_id:
            continue
        brought = {
            outlet.topic
            for progress in contents.partitions.values()
            if progress.state not in ENDED
            for outlet in progress.outlets
        }
        back = sorted(
            topic for topic in brought if link.decide_topic(topic).target_name is not None
        )
        if back:
            more = f", and {len(back) - _SHOWN} more" if len(back) > _SHOWN else ""
            shown = f"{', '.join(back[:_SHOWN])}{more}"
            yield (
                f"a loop: by {name} on {link.source.alias}, a flow brings {shown} from"
                f" {link.target.alias}, and {link.name} would mirror them back. Leave them out of"
                " topics, or use the same alias for each cluster in all files"
            )


def with_other_writers(links: Sequence[LinkPlan]) -> tuple[LinkPlan, ...]:
    """Returns `links` with the consequences of other links of the file that write to the same
    target topics.

    A link with `sole.writer` gets a problem for each such topic, because a record of another
    writer stops the partition. A link that commits offsets of groups gets a note."""
    writers: defaultdict[tuple[object, str], list[tuple[str, str]]] = defaultdict(list)
    for each in links:
        for topic in each.mirrored:
            place = each.link.target.bootstrap, topic.target
            writers[place].append((each.link.name, topic.source))
    found = []
    for each in links:
        link = each.link
        target = link.target.alias
        problems, notes = [*each.problems], [*each.notes]
        for topic in each.mirrored:
            writing = writers[link.target.bootstrap, topic.target]
            others = [(name, source) for name, source in writing if name != link.name]
            if others and link.is_sole_writer(topic.source):
                listed = ", ".join(f"{source} by {name}" for name, source in others)
                error = ConfigError(
                    "mirror",
                    f"{topic.source} of {link.source.alias}",
                    f"{topic.target} on {target} would also be the mirror of {listed}, and a record"
                    " of another writer stops a partition",
                    remedy="give one of them another name (causeway.rename), or set "
                    f"{link.name}.causeway.sole.writer = false",
                )
                problems.append(TopicProblem(topic=topic.source, error=error))
            elif others and link.control.sync_group_offsets_enabled and not link.reverse:
                names = ", ".join(name for name, _ in others)
                text = f"{topic.target} on {target} is also written by {names}: {GROUP_RULE}"
                notes.append(text)
        found.append(replace(each, problems=tuple(problems), notes=tuple(notes)))
    return tuple(found)
