"""Loads custom replication policies by the name in `replication.policy.class`.

    com.example.TeamPolicy     an entry point of that name, of an installed package; so a file that
                               names a Java class can stay as it is
    teams.naming:TeamPolicy    a class of a module that can be imported

Only the driver and commands call a policy. Lanes get the names of topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from causeway import renames
from causeway.config.entries import Entries, Problems
from causeway.config.keys import FlowKeys
from causeway.errors import ConfigError
from causeway.filters import POLICY
from causeway.naming import KAFKAS, PACKAGE, CustomPolicy, ReplicationPolicy

GROUP = "causeway.replication_policies"
KEY = "replication.policy.class"
_PATH = re.compile(r"[\w.]+:[\w.]+")
_METHODS = ("format_remote_topic", "topic_source", "upstream_topic")
_IDENTITY = f"{PACKAGE}IdentityReplicationPolicy"
# Policies of others, and Kafka's policy that does the same, except that it prefixes heartbeats.
_SAME = {
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": _IDENTITY,
    "LegacyReplicationPolicy": _IDENTITY,
}


def load_policy(name: str, config: Mapping[str, str]) -> CustomPolicy:
    """Returns an instance of the class called `name`, configured if it has `configure`. Raises
    ConfigError, also for an exception of the class."""
    found = _class(name)
    try:
        policy = found()
        if callable(configure := getattr(policy, "configure", None)):
            configure(dict(config))
    except Exception as error:  # it is the user's code
        raise _refused(name, f"its constructor failed: {_said(error)}") from None
    lacking = [method for method in _METHODS if not callable(getattr(policy, method, None))]
    if lacking:
        cause = f"it has no method {', '.join(lacking)}"
        raise _refused(name, cause, "docs/reference/names.md has them")
    return policy  # type: ignore[no-any-return]  # it has the methods


def _class(name: str) -> Any:
    installed = entry_points(group=GROUP)
    chosen = {point.value: point for point in installed if point.name == name}
    if len(chosen) > 1:
        raise _refused(name, f"several packages have one: {', '.join(sorted(chosen))}")
    if not chosen and ":" not in name:
        raise _unknown(name, {point.name for point in installed})
    if not chosen and not _PATH.fullmatch(name):
        raise _refused(name, "a class is named module:Class, by Python's names")
    if not chosen and ".py:" in name:
        raise _refused(name, "it cannot be imported", f"write {name.replace('.py:', ':')}")
    point = next(iter(chosen.values()), EntryPoint(name=name, value=name, group=GROUP))
    try:
        found = point.load()
    except Exception as error:  # it is the user's code
        remedy = ""
        if isinstance(error, ModuleNotFoundError) and error.name == point.module.partition(".")[0]:
            remedy = f"put the folder of {error.name}.py into PYTHONPATH, or install it"
        raise _refused(name, f"{point.value} cannot be imported: {_said(error)}", remedy) from None
    if not callable(found):
        raise _refused(name, f"{point.value} is not a class")
    return found


def _unknown(name: str, installed: set[str]) -> ConfigError:
    own = f"or a Python class: module:Class, or an entry point in {GROUP}"
    last = name.rpartition(".")[2]
    same = _SAME.get(name) or _SAME.get(last)
    if same is not None:
        return _refused(name, "that Java class cannot run here", f"{same} names topics alike")
    by_last = {each.rpartition(".")[2]: each for each in (*installed, *KAFKAS)}
    near = [by_last[each] for each in get_close_matches(last, by_last, 1, 0.7)]
    if near:
        meant = PACKAGE + near[0] if near[0] in KAFKAS else near[0]
        return _refused(name, "there is no such policy", f"did you mean {meant}?")
    known = " and ".join(PACKAGE + each for each in KAFKAS)
    return _refused(name, "a Java class cannot run here", f"there are {known}; {own}")


def _refused(name: str, cause: str, remedy: str = "") -> ConfigError:
    return ConfigError(f"use {KEY}", name, cause, remedy=remedy)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def replication_policy(
    own: Entries, keys: FlowKeys, source: str, target: str, problems: Problems
) -> ReplicationPolicy | None:
    """Returns the policy of the flow between these aliases. None after a problem."""
    named = own.get(POLICY)
    class_name, custom = keys.policy_class, None
    try:
        if class_name.removeprefix(PACKAGE) not in KAFKAS:
            config = {
                "source.cluster.alias": source,
                "target.cluster.alias": target,
                "replication.policy.separator": keys.policy_separator,
            }
            custom = load_policy(class_name.strip(), config)
            if named is not None and named.secret:
                class_name = "the policy"
        policy = ReplicationPolicy(
            kind=KAFKAS.get(class_name.removeprefix(PACKAGE), "custom"),
            separator=keys.policy_separator,
            internal_separator_enabled=keys.policy_internal_separator,
            internal_topics=keys.internal_topics,
            source_alias=source,
            renames=renames.parse(keys.rename),
            custom=custom,
            class_name="" if custom is None else class_name,
        )
        policy.tells_source(source)  # which asks it for names, as all will
    except ConfigError as error:
        said = error.operation.removeprefix("use ")
        entry = own.get({"read the pattern": renames.KEY, "name topic": POLICY}.get(said, said))
        text = entry.without_secrets(error) if entry else str(error)
        if said == POLICY and named is not None and named.secret:
            text = f"{POLICY}: what it names cannot be used"  # the cause quotes it
        problems.add(f"{entry.spot}: {text}" if entry and entry.spot else text)
        return None
    return policy
