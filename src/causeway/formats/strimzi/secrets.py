"""Refers to the Secrets that a resource names, and translates the references in its configs.

Kubernetes mounts each Secret as a directory, with a file for each key. Entries refer to the files
as `${dir:...}`, so no file is read before references are resolved. `references` translates the
names that Strimzi and the resource give to Kafka's config providers.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from os.path import isdir, isfile  # Path's raise where a directory may not be read
from pathlib import Path

from causeway.config import Problems
from causeway.formats.causeway_yaml.document import YamlEntry
from causeway.formats.properties import PROVIDER_CLASSES

VARIABLE = "CAUSEWAY_SECRETS"
MOUNTED = "/etc/causeway/secrets"  # as deploy/kubernetes mounts them
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_EITHER = re.compile(r"\{([^{}]*)\}")
_KEY = re.compile(r"(?!\.\.)[A-Za-z0-9._-]+")


@dataclass(slots=True, kw_only=True)
class Secrets:
    """`directory`: None if it is not set. `unseen`: references are made from names only, and the
    files need not exist."""

    directory: Path | None
    problems: Problems
    unseen: bool = False

    def reference(self, name: YamlEntry, key: YamlEntry) -> str | None:
        """Returns the reference to `key` of the Secret `name`. None after a problem."""
        folder = self._folder(name)
        if folder is None:
            return None
        if not _KEY.fullmatch(key.value):
            self.problems.add(f"{key.place}: its value cannot be a key of a Secret")
            return None
        if not self.unseen and not isfile(folder / key.value):
            cause = f"the Secret {name.value} has no key {key.value} in {folder.parent}"
            self.problems.add(f"{key.place}: {cause}{_near(key.value, _names(folder, isfile))}")
            return None
        return f"${{dir:{folder}:{key.value}}}"

    def matching(self, name: YamlEntry, pattern: YamlEntry) -> list[str]:
        """Returns references to all keys of the Secret that the glob `pattern` matches."""
        if self.unseen:
            self.problems.add(
                f"{pattern.place}: the Secret must be readable to find matching keys: name its"
                " directory with --secrets DIR"
            )
            return []
        folder = self._folder(name)
        if folder is None:
            return []
        globs = _globs(pattern.value)
        keys = [
            key for key in _names(folder, isfile) if any(fnmatchcase(key, each) for each in globs)
        ]
        if not keys:
            none = f"no key of the Secret {name.value} in {folder.parent} matches"
            self.problems.add(f"{pattern.place}: {none} {pattern.value!r}")
        return [f"${{dir:{folder}:{key}}}" for key in keys]

    def _folder(self, name: YamlEntry) -> Path | None:
        if not _NAME.fullmatch(name.value):
            self.problems.add(f"{name.place}: its value cannot be the name of a Secret")
            return None
        if self.directory is None:
            self.problems.add(
                f"{name.place} names the Secret {name.value}: set --secrets DIR, or {VARIABLE}, to"
                " the directory of the Secrets: a directory for each, with a file for each key"
            )
            return None
        if "}" in str(self.directory):
            self.problems.add(f"--secrets {self.directory}: its path must not have a '}}' in it")
            return None
        folder = self.directory.absolute() / name.value
        if not self.unseen and not isdir(self.directory):
            self.problems.add(f"--secrets {self.directory} is no directory")
            return None
        if not self.unseen and not isdir(folder):
            there = _names(self.directory, isdir)
            cause = f"there is no Secret {name.value} in {self.directory}"
            self.problems.add(f"{name.place}: {cause}{_near(name.value, there)}")
            return None
        return folder


def _globs(pattern: str) -> list[str]:
    """Returns globs without `{a,b}`, which only Java's globs have."""
    found = _EITHER.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [glob for part in found[1].split(",") for glob in _globs(before + part + after)]


def _names(folder: Path, is_one: Callable[[Path], bool]) -> list[str]:
    """Returns the names in `folder`. In Kubernetes these are links to files in a folder
    `..data`."""
    try:
        return sorted(each.name for each in folder.iterdir() if is_one(each))
    except OSError:
        return []


def _near(name: str, there: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(there[:8])}" if there else ""


PROVIDERS = "config.providers"
_SECRET = "secret"  # noqa: S105 - a kind of provider
_BUILT_IN = {
    "strimzienv": "env",
    "strimzifile": "file",
    "strimzidir": "dir",
    "strimzisecrets": _SECRET,
}
_CLASSES = {**PROVIDER_CLASSES, "KubernetesSecretConfigProvider": _SECRET}
_REFERENCE = re.compile(r"\$\{([^}:]+):(?:([^}]*):)?([^}]*)\}")


def is_provider(name: str) -> bool:
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """`kinds`: the kind of each provider, by its name."""

    kinds: Mapping[str, str]
    secrets: Secrets

    def plain(self, given: YamlEntry) -> YamlEntry:
        """Returns `given` with the names of the built-in providers. A Secret that does not exist is
        a problem, and its reference becomes empty."""

        def one(match: re.Match[str]) -> str:
            kind, (path, key) = self.kinds.get(match[1]), (match[2] or "", match[3])
            if kind is None or kind == match[1]:
                return match[0]
            if kind != _SECRET:
                return f"${{{kind}:{path}:{key}}}" if path else f"${{{kind}:{key}}}"
            name = path.rpartition("/")[2]  # behind its namespace
            found = self.secrets.reference(replace(given, value=name), replace(given, value=key))
            return found or ""

        text = _REFERENCE.sub(one, given.value)
        return given if text == given.value else replace(given, value=text)


def references(
    configs: Iterable[Mapping[str, YamlEntry]], secrets: Secrets, problems: Problems
) -> References:
    """Returns the providers that `configs` declare. Unsupported classes go to `problems`."""
    kinds = dict(_BUILT_IN)
    for config in configs:
        for name, given in config.items():
            if not (name.startswith(f"{PROVIDERS}.") and name.endswith(".class")):
                continue
            short = given.value.strip().rpartition(".")[2]
            provider = name.removeprefix(f"{PROVIDERS}.").removesuffix(".class")
            if short in _CLASSES:
                kinds[provider] = _CLASSES[short]
            else:
                known = ", ".join(_CLASSES)
                problems.add(f"{given.place}: {given.value} is not supported, only {known}")
    return References(kinds=kinds, secrets=secrets)
