"""The driver: `run` mirrors the links of a file.

The names are imported when they are first used: commands need some packages in this package, but
not the whole driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from causeway.daemon import processes
    from causeway.daemon.clients import Sides, settle_clusters
    from causeway.daemon.driver import run
    from causeway.daemon.events import plain, said
    from causeway.daemon.leadership import Leadership
    from causeway.daemon.processes import short_collections
    from causeway.daemon.reload_door import Reloaded, ask_drivers
_MODULES = {
    "Leadership": "leadership",
    "Reloaded": "reload_door",
    "Sides": "clients",
    "ask_drivers": "reload_door",
    "plain": "events",
    "run": "driver",
    "said": "events",
    "settle_clusters": "clients",
    "short_collections": "processes",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
