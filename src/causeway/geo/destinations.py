"""Adds and removes destinations. The destination's cluster keeps the list of its chosen topics."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from causeway.cluster import clusters
from causeway.config import LinkSettings
from causeway.control import geo_topics
from causeway.errors import CausewayError, ConfigError
from causeway.geo import claims
from causeway.geo.topics import Done, done, target_of
from causeway.link_topics import Directive, OriginDirective, directive_as_json, write_directives
from causeway.operate.directives import WAIT_S, DirectiveRequest, Wanted

_SHOWN = 5
_AT_ONCE = 8  # destinations


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """`before`: the directive that added it before; in this case nothing was written. `topics`: the
    topics that were already chosen."""

    destination: str
    cluster: str
    before: Directive | None
    topics: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """For `--json`: stable keys."""
        before = self.before
        return {
            "destination": self.destination,
            "cluster_id": self.cluster,
            "changed": before is None,
            "before": None if before is None else directive_as_json(before),
            "topics": list(self.topics),
        }


def add_destination(
    link: LinkSettings,
    *,
    known: str | None = None,
    who: str | None = None,
    reason: str | None = None,
) -> Added:
    """Makes the target of the link a destination of its source: writes the cluster id of the
    origin there.

    `known`: the id of the cluster that had this name so far. Raises ConfigError if the cluster is
    another one or the origin itself, or if one of the names means another cluster. Raises
    ConflictError for a concurrent request, and other CausewayErrors.
    """
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        source_id, target_id = claims.cluster_id(source), claims.cluster_id(target)
        if known is not None and known != target_id:
            raise ConfigError(
                "add",
                f"destination {link.target.alias}",
                f"this name means the cluster {known}, and this is {target_id}",
                remedy=f"take another name, or first: causeway geo destination remove"
                f" {link.target.alias}",
            )
        claims.check(link, target, source_id, target_id)
        wish = Wanted(reason=reason, who=who).wish(OriginDirective, cluster=source_id)
        before = geo_topics.learn(target, link)
        write_directives(target, link, partial(geo_topics.plan_mirror, wishes=[wish]))
        return Added(
            destination=link.target.alias,
            cluster=target_id,
            before=geo_topics.origin(before),
            topics=sorted(geo_topics.chosen(before)),
        )


def remove_destination(
    link: LinkSettings,
    *,
    confirmed: bool,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Stops copying to the destination; its topics stay. Raises ConfigError if topics are copied
    there and the call is not `confirmed`; otherwise like `remove_topics`."""
    name = link.target.alias
    with clusters() as connect:
        directives = geo_topics.learn(connect(link.target_admin), link)
        names = sorted(geo_topics.chosen(directives))
        if names and not confirmed:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ConfigError(
                "remove",
                f"destination {name}",
                f"topics are copied there: {', '.join(names[:_SHOWN])}{more}",
                remedy="with --yes copying ends, and the topics stay there",
            )
        targets = {each: target_of(link, each) for each in names}
        asking = DirectiveRequest(link, "remove", connect)
        wish = Wanted(reason=reason, who=who).wish(OriginDirective, cluster="")
        plan = asking.write(wish, geo_topics.plan_forget)
        return done(asking, "remove destination", targets, plan, directives, wait_s)


def unreachable_destinations(links: Sequence[LinkSettings]) -> dict[str, CausewayError]:
    """Returns the targets of `links` that do not answer now, with the reasons. Asks in parallel."""
    with clusters() as connect, ThreadPoolExecutor(max(1, min(_AT_ONCE, len(links)))) as pool:
        checks = {
            link.target.alias: pool.submit(connect(link.target_admin).bootstrap_check)
            for link in links
        }
        errors = {name: check.exception() for name, check in checks.items()}
    for error in errors.values():
        if error is not None and not isinstance(error, CausewayError):
            raise error
    return {name: error for name, error in errors.items() if isinstance(error, CausewayError)}
