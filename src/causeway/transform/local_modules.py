"""The source of a transform's function, and of the modules that lie beside its own.

What it imports is read off the text, as nothing of it may run here: `import` and `from` anywhere in
it. Not seen are modules that are imported by a text, and files that a module reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

_LIBRARIES = ("site-packages", "dist-packages")


def sources(module: str, path: Path) -> dict[str, str]:
    """By name, a hash of the source of `module`, which lies at `path`, and of each that it needs of
    those beside it: in its own package, or in the folder that this lies in unless libraries do,
    too."""
    found = {module: _hash(path.read_bytes())}
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
            found[name] = _hash(place.read_bytes())
            todo += [*_needs(name, place), *_parents(name)]
    return found


def _hash(data: bytes) -> str:
    return sha256(data).hexdigest()


def _root(module: str, path: Path) -> Path | None:
    """The folder of the outermost package; None where files do not lie as modules are named."""
    parts = module.split(".")
    depth = len(parts) if path.name == "__init__.py" else len(parts) - 1
    if depth >= len(path.parents) or _place(path.parents[depth], module) != path:
        return None
    return path.parents[depth]


def _has_libraries(folder: Path) -> bool:
    return folder.name in _LIBRARIES or any(folder.glob("*.dist-info"))


def _place(root: Path, name: str) -> Path | None:
    base = root.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if path.is_file():
            return path
    return None


def _parents(name: str) -> Iterator[str]:
    """The packages that it lies in, which are imported with it."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _needs(module: str, path: Path) -> Iterator[str]:
    """What its text imports, by whole names; of `from a import b` both `a` and `a.b`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # to import it says so
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
