"""Replication policies of one's own, by the name that stands in `replication.policy.class`.

    com.example.TeamPolicy     an entry point of that name, of an installed package; so a file that
                               names a Java class can stay as it is
    teams.naming:TeamPolicy    a class of a module that can be imported

What is found is asked in the driver and by commands only: lanes are told names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from causeway.errors import ConfigError
from causeway.naming import KAFKAS, PACKAGE, CustomPolicy

GROUP = "causeway.replication_policies"
KEY = "replication.policy.class"
_PATH = re.compile(r"[\w.]+:[\w.]+")
_METHODS = ("format_remote_topic", "topic_source", "upstream_topic")
_IDENTITY = f"{PACKAGE}IdentityReplicationPolicy"
# By others: what of Kafka's does the same, but that heartbeats get a prefix by it.
_SAME = {
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": _IDENTITY,
    "LegacyReplicationPolicy": _IDENTITY,
}


def load_policy(name: str, config: Mapping[str, str]) -> CustomPolicy:
    """An instance of the class called `name`, told `config` if it wants to be. Raises ConfigError,
    also for whatever the class raises."""
    found = _class(name)
    try:
        policy = found()
        if callable(configure := getattr(policy, "configure", None)):
            configure(dict(config))
    except Exception as error:  # it is the user's code
        raise _refused(name, f"it cannot be made: {_said(error)}") from None
    lacking = [method for method in _METHODS if not callable(getattr(policy, method, None))]
    if lacking:
        cause = f"it has no method {', '.join(lacking)}"
        raise _refused(name, cause, "docs/reference/names.md has them")
    return policy  # type: ignore[no-any-return]  # as far as it can be seen


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
        raise _refused(name, f"{point.value} is no class")
    return found


def _unknown(name: str, installed: set[str]) -> ConfigError:
    own = f"of one's own, as a Python class: module:Class, or an entry point in {GROUP}"
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
