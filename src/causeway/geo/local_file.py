"""What this machine remembers: where the origin and its destinations are. No secret: of how to log
in, only the path of a file.

All else is known by the destinations themselves, so any machine that knows the addresses can take
the next action.
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
VARIABLE: Final = "CAUSEWAY_GEO_CONFIG"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Keys of a property file that begin so mean other things.
_RESERVED: Final = frozenset({"spark", "causeway", "clusters", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A cluster: what it is called, where it is, and the client.properties to reach it with;
    `cluster`: the id of a destination, once it was asked."""

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
class Remembered:
    """`path`: of the file it stands in, which may not be there yet."""

    path: Path
    origin: Place | None = None
    destinations: tuple[Place, ...] = ()

    def cluster_of(self, name: str) -> str | None:
        """The id of the destination of that name, where there is one and it was asked."""
        return next((each.cluster for each in self.destinations if each.name == name), None)

    def known_origin(self) -> Place:
        """Raises ConfigError where nobody has named one."""
        if self.origin is None:
            raise ConfigError(
                "geo",
                cause="no origin is known: the cluster whose topics are to be copied",
                remedy="name it once: causeway geo --origin NAME=host:port"
                " [--origin-config client.properties]",
            )
        return self.origin

    def destination(self, name: str) -> Place:
        """Raises ConfigError with the names that there are."""
        self.known_origin()  # the first step first
        for each in self.destinations:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.destinations) or "none"
        raise ConfigError(
            "geo",
            f"destination {name}",
            f"none is known by that name on this machine; there is {names}",
            remedy=f"causeway geo destination add {name} --bootstrap host:port",
        )

    def with_origin(self, place: Place) -> Remembered:
        """Raises ConfigError for another origin than the one that is known, or a name that a
        destination has."""
        check_name(place.name, "origin")
        if self.origin is not None and self.origin.name != place.name:
            raise ConfigError(
                "geo",
                f"origin {place.name}",
                f"{self.path} is about the origin {self.origin.name}, and holds one",
                remedy=f"--config FILE (or {VARIABLE}) keeps another beside it",
            )
        if any(each.name == place.name for each in self.destinations):
            raise _same_name(place.name)
        return replace(self, origin=place)

    def with_destination(self, place: Place) -> Remembered:
        """In the place of one that has its name. Raises ConfigError."""
        check_name(place.name, "destination")
        if self.origin is not None and self.origin.name == place.name:
            raise _same_name(place.name)
        others = [each for each in self.destinations if each.name != place.name]
        return replace(self, destinations=_sorted([*others, place]))

    def without_destination(self, name: str) -> Remembered:
        return replace(
            self, destinations=tuple(each for each in self.destinations if each.name != name)
        )

    def only(self, name: str | None) -> Remembered:
        """With one of its destinations, or all. Raises ConfigError."""
        return self if name is None else replace(self, destinations=(self.destination(name),))


def default_path(environment: Mapping[str, str] = os.environ) -> Path:
    """`CAUSEWAY_GEO_CONFIG`, else `geo.json` in the user's folder of settings. Raises ConfigError
    for a user without a home."""
    if named := environment.get(VARIABLE):
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME", "")
    # A relative path there is to be ignored, says the XDG Base Directory Specification.
    try:
        directory = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError:
        cause, remedy = "this user has no home directory", f"set {VARIABLE} to the file's path"
        raise ConfigError("find", "the settings of geo-replication", cause, remedy=remedy) from None
    return directory / "causeway" / "geo.json"


def read(path: Path) -> Remembered:
    """What stands in `path`; nothing where it is not there. Raises ConfigError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Remembered(path=path)
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
            "it is not what `causeway geo` writes",
            remedy="move it away, and name origin and destinations again:"
            " their clusters know what was chosen",
        ) from None
    return Remembered(path=path, origin=origin, destinations=_sorted(destinations))


def write(remembered: Remembered) -> None:
    """For this user alone, and as a whole or not at all. Raises ConfigError."""
    path = remembered.path
    content = {
        "version": VERSION,
        "origin": None if remembered.origin is None else remembered.origin.as_json(),
        "destinations": [each.as_json() for each in remembered.destinations],
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Such a file is 0600 from its first byte on.
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            "remember in",
            str(path),
            (error.strerror or str(error)).lower(),
            remedy=f"--config FILE, or {VARIABLE}, names another place",
        ) from None


def change(path: Path, to: Callable[[Remembered], Remembered]) -> Remembered:
    """What stands there by now, changed and written: others may have changed it since it was read.
    Raises ConfigError."""
    after = to(read(path))
    write(after)
    return after


def parse_origin(text: str, config: Path | None) -> Place:
    """Of `NAME=host:port,…`. Raises ConfigError."""
    name, equals, bootstrap = text.partition("=")
    if not equals or not bootstrap.strip():
        raise ConfigError(
            "read option", f"--origin {text}", "it is not NAME=host:port[,host:port…]"
        )
    return place(name.strip(), bootstrap, config, "origin")


def place(name: str, bootstrap: str, config: Path | None, kind: str) -> Place:
    """Checked, with an absolute path. Raises ConfigError."""
    check_name(name, kind)
    if config is not None:
        config = config.expanduser().absolute()
        if not config.is_file():
            raise ConfigError("read", str(config), "there is no such file")
    return Place(name=name, bootstrap=bootstrap.strip(), config=config)


def check_name(name: str, kind: str) -> None:
    """Raises ConfigError for a name that topic names cannot bear, or that would hide where they
    came from."""
    if name in _RESERVED:
        raise ConfigError("geo", f"{kind} {name}", "keys that begin so mean other things")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "geo",
            f"{kind} {name!r}",
            "a name has 1 to 64 letters, digits, '-' and '_': it begins the names of topics, up to"
            " the first '.'",
        )


def _place(found: Mapping[str, Any], kind: str) -> Place:
    name, bootstrap, config = found["name"], found["bootstrap"], found["config"]
    cluster = found.get("cluster_id")
    if not all(isinstance(each, str) for each in (name, bootstrap, cluster or "")):
        raise TypeError(kind)
    check_name(name, kind)
    config = None if config is None else Path(config)
    return Place(name=name, bootstrap=bootstrap, config=config, cluster=cluster)


def _sorted(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda each: each.name))


def _same_name(name: str) -> ConfigError:
    return ConfigError("geo", name, "origin and destination cannot have the same name")
