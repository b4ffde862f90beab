"""`${...}` in a resource's configs, by the names that Strimzi and the resource give to Kafka's
config providers, as the ones of a property file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from causeway.config import Problems
from causeway.formats.strimzi.fields import Given
from causeway.formats.strimzi.secrets import Secrets

PROVIDERS = "config.providers"
_SECRET = "secret"  # noqa: S105 - a kind of provider
_BUILT_IN = {
    "strimzienv": "env",
    "strimzifile": "file",
    "strimzidir": "dir",
    "strimzisecrets": _SECRET,
}
_CLASSES = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
    "KubernetesSecretConfigProvider": _SECRET,
}
_REFERENCE = re.compile(r"\$\{([^}:]+):(?:([^}]*):)?([^}]*)\}")


def is_provider(name: str) -> bool:
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """`kinds`: of each provider, by its name."""

    kinds: Mapping[str, str]
    secrets: Secrets

    def plain(self, given: Given) -> Given:
        """`given` with the providers' names that a property file knows by itself. A Secret that is
        not there is told, and stands for nothing."""

        def one(match: re.Match[str]) -> str:
            kind, (path, key) = self.kinds.get(match[1]), (match[2] or "", match[3])
            if kind is None or kind == match[1]:
                return match[0]
            if kind != _SECRET:
                return f"${{{kind}:{path}:{key}}}" if path else f"${{{kind}:{key}}}"
            name = path.rpartition("/")[2]  # behind its namespace
            found = self.secrets.reference(replace(given, text=name), replace(given, text=key))
            return found or ""

        text = _REFERENCE.sub(one, given.text)
        return given if text == given.text else replace(given, text=text)


def references(
    configs: Iterable[Mapping[str, Given]], secrets: Secrets, problems: Problems
) -> References:
    """By what `configs` declare. Classes that cannot be had go to `problems`."""
    kinds = dict(_BUILT_IN)
    for config in configs:
        for name, given in config.items():
            if not (name.startswith(f"{PROVIDERS}.") and name.endswith(".class")):
                continue
            short = given.text.strip().rpartition(".")[2]
            provider = name.removeprefix(f"{PROVIDERS}.").removesuffix(".class")
            if short in _CLASSES:
                kinds[provider] = _CLASSES[short]
            else:
                known = ", ".join(_CLASSES)
                problems.add(f"{given.where}: {given.text} is not supported, only {known}")
    return References(kinds=kinds, secrets=secrets)
