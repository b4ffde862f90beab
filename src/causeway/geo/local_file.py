"""The file with the addresses of origin and destinations on this machine. For logins, it has only
the path of a client.properties.

The destinations keep everything else, so each machine with the addresses can do the next command.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from causeway.errors import ConfigError

VERSION: Final = 1
GEO_FILE_VARIABLE: Final = "CAUSEWAY_GEO_CONFIG"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Keys of a property file that begin with one of these have another meaning.
_RESERVED: Final = frozenset({"spark", "causeway", "clusters", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """`config`: the client.properties for the cluster. `cluster`: the id of a destination, once it
    is known."""

    name: str
    bootstrap: str
    config: Path | None = None
    cluster: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bootstrap": self.bootstrap,
            "config": None if self.config is None else str(self.config),
            "cluster_id": self.cluster,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GeoFile:
    """`path`: the path of the file, which need not exist yet."""

    path: Path
    origin: ClusterAddress | None = None
    destinations: tuple[ClusterAddress, ...] = ()

    def cluster_of(self, name: str) -> str | None:
        """Returns the cluster id of the destination `name`; None if it is not known."""
        return next((each.cluster for each in self.destinations if each.name == name), None)

    def known_origin(self) -> ClusterAddress:
        """Returns the origin. Raises ConfigError if it was never named."""
        if self.origin is None:
            raise ConfigError(
                "geo",
                cause="no origin is known (the cluster whose topics are copied)",
                remedy="name it once: causeway geo --origin NAME=host:port"
                " [--origin-config client.properties]",
            )
        return self.origin

    def destination(self, name: str) -> ClusterAddress:
        """Returns the destination `name`. Raises ConfigError with the known names."""
        self.known_origin()
        for each in self.destinations:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.destinations) or "none"
        raise ConfigError(
            "geo",
            f"destination {name}",
            f"this machine knows no such destination; it knows {names}",
            remedy=f"causeway geo destination add {name} --bootstrap host:port",
        )

    def with_origin(self, place: ClusterAddress) -> GeoFile:
        """Returns the file with this origin. Raises ConfigError if another origin is known, or if a
        destination has the name."""
        check_name(place.name, "origin")
        if self.origin is not None and self.origin.name != place.name:
            raise ConfigError(
                "geo",
                f"origin {place.name}",
                f"{self.path} has the origin {self.origin.name}, and a file has one origin",
                remedy=f"--config FILE (or {GEO_FILE_VARIABLE}) names a file for another origin",
            )
        if any(each.name == place.name for each in self.destinations):
            raise _same_name(place.name)
        return replace(self, origin=place)

    def with_destination(self, place: ClusterAddress) -> GeoFile:
        """Returns the file with this destination; replaces one with the same name. Raises
        ConfigError."""
        check_name(place.name, "destination")
        if self.origin is not None and self.origin.name == place.name:
            raise _same_name(place.name)
        others = [each for each in self.destinations if each.name != place.name]
        return replace(self, destinations=_sorted([*others, place]))

    def without_destination(self, name: str) -> GeoFile:
        return replace(
            self, destinations=tuple(each for each in self.destinations if each.name != name)
        )

    def only(self, name: str | None) -> GeoFile:
        """Returns the file with only the destination `name`, or with all if it is None. Raises
        ConfigError."""
        return self if name is None else replace(self, destinations=(self.destination(name),))


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns CAUSEWAY_GEO_CONFIG, else `geo.json` in the user's configuration folder. Raises
    ConfigError if the user has no home directory."""
    if named := environment.get(GEO_FILE_VARIABLE):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME", "")
    # The XDG Base Directory Specification says to ignore a relative path.
    try:
        directory = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError:
        cause, remedy = (
            "this user has no home directory",
            f"set {GEO_FILE_VARIABLE} to the file's path",
        )
        raise ConfigError("find", "the settings of geo-replication", cause, remedy=remedy) from None
    return directory / "causeway" / "geo.json"


def read_geo_file(path: Path) -> GeoFile:
    """Returns the content of `path`; empty if there is no such file. Raises ConfigError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return GeoFile(path=path)
    except (OSError, UnicodeDecodeError) as error:
        cause = (error.strerror or "").lower() if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError("read", str(path), cause) from None
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ValueError(f"version {found['version']!r}")  # noqa: TRY301
        origin = None if found["origin"] is None else _place(found["origin"], "origin")
        destinations = [_place(each, "destination") for each in found["destinations"]]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise ConfigError(
            "read",
            str(path),
            "`causeway geo` did not write this file",
            remedy="move it away, and name origin and destinations again:"
            " the clusters have the chosen topics",
        ) from None
    return GeoFile(path=path, origin=origin, destinations=_sorted(destinations))


def write_geo_file(known: GeoFile) -> None:
    """Writes a file that only this user can read, atomically. Raises ConfigError."""
    path = known.path
    content = {
        "version": VERSION,
        "origin": None if known.origin is None else known.origin.as_json(),
        "destinations": [each.as_json() for each in known.destinations],
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp creates the file with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            "remember in",
            str(path),
            (error.strerror or str(error)).lower(),
            remedy=f"--config FILE, or {GEO_FILE_VARIABLE}, names another file",
        ) from None


def change_geo_file(path: Path, to: Callable[[GeoFile], GeoFile]) -> GeoFile:
    """Reads the file again, because other commands may have changed it, applies `to`, and writes
    the result. Raises ConfigError."""
    after = to(read_geo_file(path))
    write_geo_file(after)
    return after


def parse_origin(text: str, config: Path | None) -> ClusterAddress:
    """Parses `NAME=host:port,…`. Raises ConfigError."""
    name, equals, bootstrap = text.partition("=")
    if not equals or not bootstrap.strip():
        raise ConfigError(
            "read option", f"--origin {text}", "it is not NAME=host:port[,host:port…]"
        )
    return cluster_address(name.strip(), bootstrap, config, "origin")


def cluster_address(name: str, bootstrap: str, config: Path | None, kind: str) -> ClusterAddress:
    """Checks the name, and that the file exists. Raises ConfigError."""
    check_name(name, kind)
    if config is not None:
        config = config.expanduser().absolute()
        if not config.is_file():
            raise ConfigError("read", str(config), "there is no such file")
    return ClusterAddress(name=name, bootstrap=bootstrap.strip(), config=config)


def check_name(name: str, kind: str) -> None:
    """Raises ConfigError for a name that cannot begin the name of a topic, or would hide its
    origin."""
    if name in _RESERVED:
        raise ConfigError(
            "geo", f"{kind} {name}", "keys that begin with this name have another meaning"
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "geo",
            f"{kind} {name!r}",
            "a name has 1 to 64 letters, digits, '-' and '_': it begins the names of topics, up to"
            " the first '.'",
        )


def _place(found: Mapping[str, Any], kind: str) -> ClusterAddress:
    name, bootstrap, config = found["name"], found["bootstrap"], found["config"]
    cluster = found.get("cluster_id")
    if not all(isinstance(each, str) for each in (name, bootstrap, cluster or "")):
        raise TypeError(kind)
    check_name(name, kind)
    config = None if config is None else Path(config)
    return ClusterAddress(name=name, bootstrap=bootstrap, config=config, cluster=cluster)


def _sorted(places: Iterable[ClusterAddress]) -> tuple[ClusterAddress, ...]:
    return tuple(sorted(places, key=lambda each: each.name))


def _same_name(name: str) -> ConfigError:
    return ConfigError("geo", name, "origin and destination cannot have the same name")
