"""From entries to the text of a property file, as MirrorMaker 2 reads it too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import javaproperties

from causeway.config import Entry

_PROVIDERS = {
    "env": "EnvVarConfigProvider",
    "file": "FileConfigProvider",
    "dir": "DirectoryConfigProvider",
    "directory": "DirectoryConfigProvider",
}
_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{(env|file|dir|directory):")


def to_properties(entries: Mapping[str, Entry], *, comments: Iterable[str] = ()) -> str:
    """ASCII: whatever else a value holds is escaped, as Java does. Providers of references are
    declared, which MirrorMaker 2 wants. `comments` go before all."""
    texts = {key: entry.value for key, entry in entries.items()}
    if "config.providers" not in texts:
        texts.update(_providers_of(texts))
    first = {"clusters": texts.pop("clusters")} if "clusters" in texts else {}
    return "".join(_lines({**first, **texts}, comments))


def _providers_of(texts: Mapping[str, str]) -> dict[str, str]:
    """The keys that declare the providers of references in `texts`."""
    used = sorted({name for text in texts.values() for name in _REFERENCE.findall(text)})
    if not used:
        return {}
    classes = {f"config.providers.{name}.class": _PACKAGE + _PROVIDERS[name] for name in used}
    return {"config.providers": ", ".join(used), **classes}


def _lines(texts: Mapping[str, str], comments: Iterable[str]) -> Iterator[str]:
    for line in comments:
        yield f"# {javaproperties.to_comment(line)[1:]}".rstrip() + "\n"
    group = None
    for key, text in texts.items():
        of = _group(key)
        if group is not None and of != group:
            yield "\n"
        group = of
        yield _line(key, text) + "\n"


def _group(key: str) -> str:
    """What stands together: a flow's keys, or a cluster's, or Spark's."""
    source, arrow, rest = key.partition("->")
    return f"{source}->{rest.partition('.')[0]}" if arrow else key.partition(".")[0]


def _line(key: str, text: str) -> str:
    """Text of several lines on as many, each but the last continued."""
    escaped = javaproperties.escape(key)
    lines = text.split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines[-2:] = [f"{lines[-2]}\n"]
    if len(lines) == 1:
        return f"{escaped} = {_value(text)}"
    return f"{escaped} = \\\n    " + "\\n\\\n    ".join(_value(line) for line in lines)


def _value(text: str) -> str:
    """As behind ` = `, where only a backslash and what is not ASCII text mean something else."""
    escaped = re.sub(r"[^ -~]|\\", lambda match: javaproperties.escape(match[0]), text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
