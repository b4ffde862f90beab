"""Reads and writes Java property files, and resolves `${...}` as Kafka does.

${env:NAME}  ${file:/path/to.properties:key}  ${dir:/path:file}     Kafka's config providers
${NAME}                                                             an environment variable
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import javaproperties

from causeway.config import (
    Entry,
    Problems,
    PropertyFile,
    is_transform_key,
    is_transform_text,
    no_references,
    note,
    read_file,
)
from causeway.errors import ConfigError

_REFERENCE = re.compile(r"\$\{(?:([^}:]*):(?:([^}]*):)?)?([^}]*)\}")
_LINE_END = re.compile(r"\r\n?|\n")
# Names that need no declaration, and their kinds.
PROVIDERS = {"env": "env", "file": "file", "dir": "dir", "directory": "dir"}
PROVIDER_CLASSES = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
}
_PACKAGE = "org.apache.kafka.common.config.provider."


def read_properties(path: Path) -> PropertyFile:
    """Reads and parses `path`. References are not resolved. Raises ConfigError."""
    return parse_properties(path, read_file(path))


def parse_properties(path: Path, data: bytes) -> PropertyFile:
    """Does the same for a file's content. `path`: only for errors. Raises ConfigError."""
    entries: dict[str, Entry] = {}
    repeated: list[Entry] = []
    for entry in _parse(path, data):
        if entry.key in entries:
            repeated.append(entries.pop(entry.key))
        entries[entry.key] = entry
    if not entries:
        raise ConfigError("read", str(path), "the file sets no property")
    return PropertyFile(path=path, entries=entries, repeated=tuple(repeated))


def load_properties(
    path: Path, problems: Problems, environment: Mapping[str, str] | None = None
) -> PropertyFile:
    """Reads `path` and resolves every reference. References that cannot be resolved go to
    `problems`. Raises ConfigError if the file cannot be read."""
    file = read_properties(path)
    resolved = resolve(file.entries, os.environ if environment is None else environment, problems)
    return PropertyFile(path=path, entries=resolved, repeated=file.repeated)


def resolve(
    entries: Mapping[str, Entry], environment: Mapping[str, str], problems: Problems
) -> dict[str, Entry]:
    """Returns `entries` with resolved references. Unresolvable references go to `problems`."""
    providers = PROVIDERS | declared_providers(entries, problems)
    resolver = _Resolver(providers=providers, environment=environment, problems=problems)
    return {key: resolver.entry(entry) for key, entry in entries.items()}


def _parse(path: Path, data: bytes) -> Iterator[Entry]:
    line = 1
    try:
        # Java reads property files as ISO-8859-1; other characters are written as \uXXXX.
        for element in javaproperties.parse(data.decode("latin-1")):
            if isinstance(element, javaproperties.KeyValue):
                value = _utf8(element) if is_transform_key(element.key) else element.value
                yield Entry(key=element.key, value=value, line=line)
            line += len(_LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError:
        raise ConfigError("read", str(path), f"invalid escape after line {line - 1}") from None


def _utf8(element: javaproperties.KeyValue) -> str:
    """Returns the value as UTF-8 if possible. MirrorMaker 2 does not read this key, so Java's
    encoding does not matter. A misread literal of a query, such as 'Zürich', would match nothing,
    without an error."""
    try:
        source = element.source.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return element.value
    return javaproperties.loads(source)[element.key]


def declared_providers(entries: Mapping[str, Entry], problems: Problems) -> dict[str, str]:
    declared: dict[str, str] = {}
    listed = entries.get("config.providers")
    for name in (part.strip() for part in listed.value.split(",")) if listed else ():
        if not name:
            continue
        key = f"config.providers.{name}.class"
        entry = entries.get(key)
        if entry is None:
            problems.add(f"config.providers names {name}, and {key} is missing")
            continue
        kind = PROVIDER_CLASSES.get(entry.value.strip().removeprefix(_PACKAGE))
        if kind is None:
            problems.add(
                f"{entry.place}: {entry.value} is not supported,"
                f" only {', '.join(_PACKAGE + name for name in PROVIDER_CLASSES)}"
            )
        # An unsupported provider is reported once, not again at each use.
        declared[name] = kind or "unsupported"
    return declared


@dataclass(slots=True, kw_only=True)
class _Resolver:
    providers: Mapping[str, str]
    environment: Mapping[str, str]
    problems: Problems
    files: dict[str, Mapping[str, Entry] | str] = field(default_factory=dict)

    def entry(self, entry: Entry) -> Entry:
        if "${" not in entry.value:
            return entry
        if is_transform_text(entry.key):
            self.problems.add(f"{entry.place}: {no_references(entry.key)}")
            return replace(entry, value="", missing=True)
        values = [self._value(entry, match) for match in _REFERENCE.finditer(entry.value)]
        if None in values:
            return replace(entry, value="", resolved=True, missing=True)
        # Programs that write secrets to files and variables often add a line end.
        told = iter([value.rstrip("\r\n") for value in values if value is not None])
        value = _REFERENCE.sub(lambda _: next(told), entry.value)
        return replace(entry, value=value, resolved=value != entry.value)

    def _value(self, entry: Entry, match: re.Match[str]) -> str | None:
        name, path, key = match.group(1), match.group(2) or "", match.group(3)
        kind = "env" if name is None else self.providers.get(name, "")
        if kind == "env":
            found = self.environment.get(key)
            # In a secret, text that looks like a reference may be a part of the secret.
            named = name is not None or not entry.secret or key.isupper()
            cause = f"the environment variable {key if named else 'in it'} is not set"
        elif kind == "file":
            found, cause = self._from_file(path, key)
        elif kind == "dir":
            found, cause = self._from_directory(path, key)
        elif kind == "unsupported":
            return None
        else:
            shown = "as it names" if entry.secret else f"called {name}"
            found, cause = None, f"there is no config provider {shown}"
        if found is None:
            self.problems.add(f"{entry.place}: {cause}")
        return found

    def _from_file(self, path: str, key: str) -> tuple[str | None, str]:
        if path not in self.files:
            try:
                self.files[path] = read_properties(Path(path)).entries
            except ConfigError as error:
                self.files[path] = error.cause
        content = self.files[path]
        if isinstance(content, str):
            return None, f"{path or 'a file without a path'}: {content}"
        entry = content.get(key)
        return entry.value if entry else None, f"{path} has no key {key}"

    def _from_directory(self, path: str, name: str) -> tuple[str | None, str]:
        file = Path(path) / name
        if Path(name).name != name:
            return None, f"{name} is not the name of a file in {path}"
        note(file)
        try:
            return file.read_text("utf-8"), ""
        except (OSError, UnicodeDecodeError) as error:
            cause = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            return None, f"{file}: {cause}"


_PROVIDER_REFERENCE = re.compile(r"\$\{(env|file|dir|directory):")


def to_properties(entries: Mapping[str, Entry], *, comments: Iterable[str] = ()) -> str:
    """Returns ASCII text: other characters are escaped, as in Java. The file declares the config
    providers of its references, because MirrorMaker 2 needs that. `comments` come first."""
    texts = {key: entry.value for key, entry in entries.items()}
    if "config.providers" not in texts:
        texts.update(_providers_of(texts))
    first = {"clusters": texts.pop("clusters")} if "clusters" in texts else {}
    return "".join(_lines({**first, **texts}, comments))


def _providers_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns the keys that declare the providers of references in `texts`."""
    used = sorted({name for text in texts.values() for name in _PROVIDER_REFERENCE.findall(text)})
    if not used:
        return {}
    class_of = {kind: name for name, kind in PROVIDER_CLASSES.items()}
    classes = {
        f"config.providers.{name}.class": _PACKAGE + class_of[PROVIDERS[name]] for name in used
    }
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
    """The keys of a flow, of a cluster, or of Spark form a group."""
    source, arrow, rest = key.partition("->")
    return f"{source}->{rest.partition('.')[0]}" if arrow else key.partition(".")[0]


def _line(key: str, text: str) -> str:
    """Returns a property. A text of several lines becomes several lines with continuations."""
    escaped = javaproperties.escape(key)
    lines = text.split("\n")
    if lines[-1] == "" and len(lines) > 1:
        lines[-2:] = [f"{lines[-2]}\n"]
    if len(lines) == 1:
        return f"{escaped} = {_value(text)}"
    return f"{escaped} = \\\n    " + "\\n\\\n    ".join(_value(line) for line in lines)


def _value(text: str) -> str:
    """Returns the text for the place after ` = `: backslashes, and characters that are not ASCII
    text, are escaped."""
    escaped = re.sub(r"[^ -~]|\\", lambda match: javaproperties.escape(match[0]), text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
