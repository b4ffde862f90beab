"""Settings of links and of the clients that reach their clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from causeway.config import ClientSettings, LinkSettings, RunSettings, Settings
from causeway.filters import compile_patterns
from causeway.naming import ReplicationPolicy
from tests.harness.lanes import client


def client_settings(alias: str, **more: Any) -> ClientSettings:
    """A client of the cluster `alias`, at an address that does not exist."""
    return ClientSettings(**{"alias": alias, "bootstrap": ((alias.lower(), 1),), **more})


def link(
    source: str | ClientSettings = "A",
    target: str | ClientSettings = "B",
    *,
    topics: str = ".*",
    topics_exclude: str = "",
    config_properties_exclude: str = "",
    **more: Any,
) -> LinkSettings:
    """A link that mirrors all topics. A cluster is an alias or the settings of its client; a
    filter is a list of patterns, as in a file."""
    a = client_settings(source) if isinstance(source, str) else source
    b = client_settings(target) if isinstance(target, str) else target
    fields: dict[str, Any] = {
        "source": a,
        "target": b,
        "source_admin": a,
        "target_admin": b,
        "policy": ReplicationPolicy(source_alias=a.alias),
        "topics": compile_patterns(topics),
        "topics_exclude": compile_patterns(topics_exclude),
        "config_properties_exclude": compile_patterns(config_properties_exclude),
    }
    return LinkSettings(**{**fields, **more})


LINK = link()
BY_KEY = link(partitioning="by-key", sole_writer=False)
GEO = link(client_settings("shop"), client_settings("dc2"), topics="", geo=True)
B = ClientSettings(alias="B", bootstrap=(("b", 1),))
BACK = replace(
    LINK, source=B, target=LINK.source, policy=ReplicationPolicy(kind="identity", source_alias="B")
)


def settings_of(*links: LinkSettings, **run: Any) -> Settings:
    """The settings of a file with these links; `run`: fields of its RunSettings."""
    return Settings(links=links, run=RunSettings(**run), spark={})


def filtered_link(**changes: Any) -> LinkSettings:
    """A link that leaves out the topics `secret.*` and one property of topics."""
    fields = {
        "topics_exclude": "secret.*",
        "config_properties_exclude": r"min\.insync\.replicas",
        "replication_factor": 1,
    }
    return link(**{**fields, **changes})


A_B, A_C = link("A", "B"), link("A", "C")


def links_between(*names: str) -> Settings:
    """Settings with links of these names, as `A->B`; nothing listens at their addresses."""
    ends = ([client(alias, "127.0.0.1:1") for alias in name.split("->")] for name in names)
    return settings_of(*(link(source, target) for source, target in ends))
