"""Destinations: a cluster becomes one, and is one no more. What is chosen for it stands there."""

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
from causeway.operate.directives.act import WAIT_S, Asking, wish_of

_SHOWN = 5
_AT_ONCE = 8  # destinations that are asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """`before`: who has said so already, and when; then nothing was written. `topics`: chosen
    there before."""

    destination: str
    cluster: str
    before: Directive | None
    topics: Sequence[str]


def add(
    link: LinkSettings,
    *,
    known: str | None = None,
    who: str | None = None,
    reason: str | None = None,
) -> Added:
    """Makes the link's target a destination of its source: writes there whose cluster the origin's
    name stands for.

    `known`: the id of the cluster that had the destination's name until now. Raises ConfigError
    where this is another, where it is the origin itself, or one of both names is taken there;
    ConflictError where somebody else does so at the same time; CausewayError.
    """
    with clusters() as connect:
        source, target = connect(link.source_admin), connect(link.target_admin)
        source_id, target_id = claims.id_of(source), claims.id_of(target)
        if known is not None and known != target_id:
            raise ConfigError(
                "add",
                f"destination {link.target.alias}",
                f"that is the cluster {known} until now, and this is {target_id}",
                remedy=f"take another name, or first: causeway geo destination remove"
                f" {link.target.alias}",
            )
        claims.check(link, target, source_id, target_id)
        wish = wish_of(OriginDirective, reason, who, cluster=source_id)
        before = geo_topics.learn(target, link)
        write_directives(target, link, partial(geo_topics.plan_mirror, wishes=[wish]))
        return Added(
            destination=link.target.alias,
            cluster=target_id,
            before=geo_topics.origin(before),
            topics=sorted(geo_topics.chosen(before)),
        )


def remove(
    link: LinkSettings,
    *,
    confirmed: bool,
    who: str | None = None,
    reason: str | None = None,
    wait_s: float | None = WAIT_S,
) -> Done:
    """Nothing is copied there any more, and what was stays. Raises ConfigError where topics are
    copied there and nobody has `confirmed` that; otherwise as `topics.remove`."""
    name = link.target.alias
    with clusters() as connect:
        standing = geo_topics.learn(connect(link.target_admin), link)
        names = sorted(geo_topics.chosen(standing))
        if names and not confirmed:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ConfigError(
                "remove",
                f"destination {name}",
                f"topics are copied there: {', '.join(names[:_SHOWN])}{more}",
                remedy="with --yes they are copied no more, and stay there as they are",
            )
        targets = {each: target_of(link, each) for each in names}
        asking = Asking(link, "remove", connect)
        plan = asking.write(
            wish_of(OriginDirective, reason, who, cluster=""), geo_topics.plan_forget
        )
        return done(asking, "remove destination", targets, plan, standing, wait_s)


def away(links: Sequence[LinkSettings]) -> dict[str, CausewayError]:
    """The destinations of `links` that cannot be reached now, by name, and why: asked side by
    side."""
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


def as_json(added: Added) -> dict[str, Any]:
    """For `--json`: stable keys."""
    before = added.before
    return {
        "destination": added.destination,
        "cluster_id": added.cluster,
        "changed": before is None,
        "before": None if before is None else directive_as_json(before),
        "topics": list(added.topics),
    }
