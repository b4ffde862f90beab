"""The driver: `run` mirrors the links of a file.

The names are imported when they are first used: commands need some packages in here, but not the
whole driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causeway.daemon import processes
    from causeway.daemon.driver import run
    from causeway.daemon.event_log import plain, said
    from causeway.daemon.leadership import Leadership
    from causeway.daemon.processes import short_collections
    from causeway.daemon.sides import Sides, settle_clusters
_MODULES = {
    "Leadership": "leadership",
    "Sides": "sides",
    "plain": "event_log",
    "run": "driver",
    "said": "event_log",
    "settle_clusters": "sides",
    "short_collections": "processes",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
