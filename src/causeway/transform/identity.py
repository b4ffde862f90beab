"""The identity of a transform: a hash of all that decides its results for a record.

Claims contain it. If the hash differs, another transform wrote the target's records, and continuing
from their offsets would lose or double records.

The sources of a Python function count, and so do the modules next to it that it imports. No code
may run here, so imports are read from the text: `import` and `from`, anywhere. Imports by name at
run time, and files that a module reads, do not count.

Once the function is imported, none of these modules may change, and none of the modules that it
imports from other folders of PYTHONPATH: Python workers import some modules only when the function
runs."""

from __future__ import annotations

import ast
import hmac
import importlib.util
import json
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from sys import modules
from typing import Any

from causeway.config import Secret, TransformSettings
from causeway.errors import ConfigError, NeedsRestartError
from causeway.transform.json_text import is_json, reading
from causeway.transform.session import MEANING, RUNNING

_FINGERPRINT = b"causeway transform secret"
_WRITTEN_BY = {"avro": "fastavro", "protobuf": "protobuf"}
# The hashes of modules' files before this process imported them; None: there was no such file.
_seen: dict[str, str | None] = {}
# By the module of a function and its file: the modules that the function needs.
_needed: dict[tuple[str, Path], Collection[str]] = {}


def identity_of(
    transform: TransformSettings, spark_conf: Mapping[str, str | Secret], java: int | None = None
) -> str:
    """Returns a hexadecimal hash. Topics, dead letters and lanes do not count. Secrets count by
    name and fingerprint. `java`: the feature version of Spark's Java. Libraries count by major
    version, so that a patch upgrade stops nothing. Raises ConfigError if the module does not exist
    or the rules cannot be read. Raises NeedsRestartError if a module has changed since this process
    imported the function, because the old function would run."""
    settings = {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in spark_conf.items()
        if key.startswith("spark.sql.") and key not in RUNNING
    }
    registry = transform.registry
    decides: dict[str, Any] = {
        "sql": transform.sql,
        "rules": _of_rules(transform),
        "python": transform.python,
        "sources": _sources(transform),
        "libraries": _libraries(transform),
        "java": java,
        "formats": [*transform.formats.values()],
        "schemas": [*transform.schemas.values()],
        "registry": None if registry is None else registry.url,
        "secrets": {
            name: hmac.new(value.reveal().encode(), _FINGERPRINT, sha256).hexdigest()
            for name, value in transform.secrets.items()
        },
        "spark": version("pyspark"),
        "settings": settings | dict(MEANING),
    }
    if transform.rules is None and "json" in decides["formats"]:
        decides["json"] = is_json("text", reading("text"))  # rules have it in their query
    return sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _of_rules(transform: TransformSettings) -> list[str] | None:
    """Returns the SQL of the rules: another version of Causeway may write it differently."""
    if transform.rules is None:
        return None
    from causeway.transform import rules

    query = rules.to_sql(transform)
    return [query, version("fastfpe")] if "causeway_tokenise" in query else [query]


def _libraries(transform: TransformSettings) -> dict[str, str | None]:
    """Returns the libraries that the transform uses; None for a library that is missing."""
    names = {_WRITTEN_BY[one] for one in transform.formats.values() if one in _WRITTEN_BY}
    if transform.python is None:
        return {name: _major(name) for name in names}
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python} | {name: _major(name) for name in (*names, "pandas", "pyarrow")}


def _major(name: str) -> str | None:
    try:
        return version(name).partition(".")[0]
    except PackageNotFoundError:
        return None


def _sources(transform: TransformSettings) -> dict[str, str] | None:
    if transform.python is None:
        return None
    module = transform.python.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except Exception as error:  # a parent package is imported, and may raise anything
        raise _no_module(transform, f"{type(error).__name__}: {error}") from None
    if spec is None:
        raise _no_module(transform, f"there is no module {module}")
    if spec.origin is None or not spec.has_location:
        raise _no_module(transform, f"the module {module} has no source file")
    files = _files(module, Path(spec.origin))
    found = {name: sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    others = _elsewhere(files)
    now: dict[str, str | None] = {**found}
    for name, place in others.items():
        now[name] = None if place is None else sha256(place.read_bytes()).hexdigest()
    _refuse_changes(transform, (module, files[module]), now, {**others, **files})
    return found


def _refuse_changes(
    transform: TransformSettings,
    function: tuple[str, Path],
    now: Mapping[str, str | None],
    files: Mapping[str, Path | None],
) -> None:
    """Raises NeedsRestartError for modules that are in use and have changed. `now`: the hash of
    each module that `function` needs."""
    _needed[function] = now.keys()
    in_use = {name for key, names in _needed.items() if _is_imported(*key) for name in names}
    changed = [
        name
        for name, digest in now.items()
        # Spark adds folders to the path when it starts, so a file may appear.
        if _seen.get(name) not in (None, digest)
        and (name in in_use or _is_imported(name, files[name]))
    ]
    if changed:
        what = (
            f"module {changed[0]} has"
            if len(changed) == 1
            else f"modules {', '.join(changed)} have"
        )
        raise NeedsRestartError(
            "use",
            transform.place or f"transform {transform.name}",
            f"its Python {what} changed since this process imported the function",
            remedy="start the driver again",
        )
    _seen.update(now)


def _is_imported(name: str, path: Path | None) -> bool:
    return path is not None and getattr(modules.get(name), "__file__", None) == str(path)


def _no_module(transform: TransformSettings, cause: str) -> ConfigError:
    return ConfigError(
        "use",
        transform.place or f"transform {transform.name}",
        cause,
        remedy="write module:function, and put the module's folder on PYTHONPATH",
    )


_LIBRARIES = ("site-packages", "dist-packages")
_OURS = ("causeway", "py4j", "pyspark")  # never part of a function, even if a folder has them


def _files(module: str, path: Path) -> dict[str, Path]:
    """Returns the source of `module`, at `path`, and of the modules that it needs, by name: the
    modules of its own package, and those of the package's folder unless libraries are installed
    there."""
    found = {module: path}
    root = _root(module, path)
    if root is None:
        return found
    package = module.partition(".")[0] if _has_libraries(root) else None
    todo = [*_needs(module, path), *_parents(module)]
    while todo:
        name = todo.pop()
        if name in found or (package is not None and name.partition(".")[0] != package):
            continue
        place = _place(root, name)
        if place is not None:
            found[name] = place
            todo += [*_needs(name, place), *_parents(name)]
    return found


def _elsewhere(files: Mapping[str, Path]) -> dict[str, Path | None]:
    """Returns, by name, the files of the other modules that `files` import from folders of
    PYTHONPATH. None if no such folder has the module."""
    own = sysconfig.get_path("stdlib")
    folders = [Path(each) for each in sys.path if each and not each.startswith(own)]
    folders = [each for each in folders if each.is_dir() and not _has_libraries(each)]
    found: dict[str, Path | None] = {}
    todo = [need for name, path in files.items() for need in _needs(name, path)]
    while todo:
        name = todo.pop()
        if name in found or name in files or name.partition(".")[0] in _OURS:
            continue
        places = (_place(folder, name) for folder in folders)
        found[name] = place = next(filter(None, places), None)
        if place is not None:
            todo += [*_needs(name, place), *_parents(name)]
    return found


def _has_libraries(folder: Path) -> bool:
    return folder.name in _LIBRARIES or any(folder.glob("*.dist-info"))


def _root(module: str, path: Path) -> Path | None:
    """Returns the folder of the outermost package. None if the folders do not match the module's
    name."""
    parts = module.split(".")
    depth = len(parts) if path.name == "__init__.py" else len(parts) - 1
    if depth >= len(path.parents) or _place(path.parents[depth], module) != path:
        return None
    return path.parents[depth]


def _place(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if path.is_file():
            return path
    return None


def _parents(name: str) -> Iterator[str]:
    """Yields the packages around the module, which Python imports with it."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _needs(module: str, path: Path) -> Iterator[str]:
    """Yields the full names of its imports; for `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # the import reports it
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            if base is not None:
                yield base
                yield from (f"{base}.{one.name}" for one in node.names if one.name != "*")


def _absolute(node: ast.ImportFrom, package: str) -> str | None:
    if not node.level:
        return node.module
    parts = package.split(".")
    if not package or node.level > len(parts):
        return None
    outer = parts[: len(parts) - node.level + 1]
    return ".".join([*outer, node.module] if node.module else outer)
