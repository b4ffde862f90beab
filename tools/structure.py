"""Measures the structure of the code: `python -m tools.structure`. tests/unit/test_structure.py
holds the limits.

A door is the `__init__` of a package: code outside of the package imports only from there. A
package within a door may be a door of its own.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {"causeway": ROOT / "src", "causeway_producer": ROOT / "producer" / "src"}
MOST_LINES = 400  # of a module
MOST_ARGUMENTS = 8  # of a function, without `self`
DOORS: tuple[str, ...] = (
    "causeway.config",
    "causeway.config.reading",
    "causeway.formats",
    "causeway.mm2_diff",
    "causeway.cluster",
    "causeway.control",
    "causeway.daemon",
    "causeway.daemon.lanes",
    "causeway.daemon.partitions",
    "causeway.daemon.spark",
    "causeway.daemon.tasks",
    "causeway.dev",
    "causeway.http",
    "causeway.metrics",
    "causeway.status",
    "causeway.dev.load",
    "causeway.geo",
    "causeway.link_topics",
    "causeway.records",
    "causeway.relay",
    "causeway.relay.lane",
    "causeway.relay.recovery",
    "causeway.logins",
    "causeway.wire",
    "causeway.schemas",
    "causeway.spark",
    "causeway.transform",
    "causeway.transform.plan",
    "causeway.transform.queries",
    "causeway.transform.rules",
    "causeway.transform.schema_formats",
    "causeway.transform.stage",
    "causeway.operate.cutover",
    "causeway.operate.directives",
    "causeway.operate.failover",
    "causeway.operate.archive",
    "causeway.operate.explain",
    "causeway.operate.plan",
    "causeway.operate.try_transform",
    "causeway.operate.verify",
    "causeway.translation",
)
"""Packages whose doors hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """`name`: dotted, without `.__init__`; `imports`: the modules that it imports, with those that
    are imported inside of functions and for types."""

    name: str
    path: Path
    lines: int
    tree: ast.Module
    imports: frozenset[str]


def modules() -> dict[str, Module]:
    """Every module of the distributions, by its dotted name."""
    trees = {name: (path, tree) for name, path, tree in _trees()}
    return {
        name: Module(
            name=name,
            path=path,
            lines=len(path.read_text().splitlines()),
            tree=tree,
            imports=frozenset(_imports(tree, trees.keys())) - {name},
        )
        for name, (path, tree) in trees.items()
    }


def _trees() -> Iterator[tuple[str, Path, ast.Module]]:
    for source in SOURCES.values():
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, path, ast.parse(path.read_text())


def _imports(tree: ast.Module, known: Iterable[str]) -> Iterator[str]:
    known = frozenset(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known
            if names - known:
                yield node.module


def cycles(of: Mapping[str, Module]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other, directly or not (Tarjan's algorithm). A package
    does not count as importing itself: a module may import a sibling while its door is loading."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(of[name].imports):
            if name.startswith(f"{other}."):
                continue
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(tuple(sorted(group)))

    for name in of:
        if name not in index:
            visit(name)
    return found


def past_doors(of: Mapping[str, Module], doors: Iterable[str]) -> list[tuple[str, str]]:
    """(module, what it imports) for each import from outside of a door that goes past the door. A
    door may export a module: `from door import module` is then an import from the door."""
    doors = frozenset(doors)
    found = set()
    for module in of.values():
        for target in _imported(module.tree, of):
            nearest = max(
                (d for d in doors if f"{target}.".startswith(f"{d}.")), key=len, default=target
            )
            inside = f"{module.name}.".startswith(f"{nearest}.")
            if target != nearest and not inside:
                found.add((module.name, target))
    return sorted(found)


def _imported(tree: ast.Module, of: Mapping[str, Module]) -> Iterator[str]:
    """The modules that are imported; the door instead of a module that the door exports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in of)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in of:
            exports = _exports(of[node.module])
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in of and alias.name not in exports else node.module


def _exports(module: Module) -> frozenset[str]:
    """The names that a package offers: those that its `__init__` imports or defines, also those
    that it imports on first use."""
    if module.path.name != "__init__.py":
        return frozenset()
    return frozenset(
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def duplicated_classes(of: Mapping[str, Module]) -> dict[str, list[str]]:
    """The modules of each class name that a distribution has more than once. The shapes of the API
    are left out: their names are those of its OpenAPI document."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in of.values():
        if module.name == "causeway.http.shapes":
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                names[module.name.partition(".")[0], node.name].append(module.name)
    return {name: where for (_, name), where in sorted(names.items()) if len(where) > 1}


def long_signatures(of: Mapping[str, Module]) -> list[tuple[str, str, int]]:
    """(module, function, arguments) of each function with more than MOST_ARGUMENTS. Commands are
    left out: their arguments are the options of the command line."""
    found = []
    for module in of.values():
        if module.name.startswith("causeway.cli"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                number = sum(argument.arg not in ("self", "cls") for argument in arguments)
                if number > MOST_ARGUMENTS:
                    found.append((module.name, node.name, number))
    return found


def long_modules(of: Mapping[str, Module]) -> list[tuple[str, int]]:
    """The modules with more than MOST_LINES."""
    return [(module.name, module.lines) for module in of.values() if module.lines > MOST_LINES]


def imports_of_tests() -> list[tuple[str, str]]:
    """(test module, test module that it imports)."""
    return [
        (str(path.relative_to(ROOT)), node.module)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module is not None
        and node.module.startswith("tests.")
        and node.module.rpartition(".")[2].startswith("test_")
    ]


def glossary_words() -> int:
    """The number of words that GLOSSARY.md defines."""
    text = (ROOT / "GLOSSARY.md").read_text()
    return sum(line.startswith("| **") for line in text.splitlines())


def main() -> None:
    """Prints the measures, and what is beyond its limit."""
    of = modules()
    packages = Counter(name.split(".")[1] if "." in name else name for name in of)
    lines = Counter[str]()
    for module in of.values():
        lines[module.name.split(".")[1] if "." in module.name else module.name] += module.lines
    for package, number in sorted(packages.items()):
        print(f"{package:20} {lines[package]:7,} lines {number:4} modules")
    print(f"{'all':20} {lines.total():7,} lines {packages.total():4} modules")
    print(f"glossary words: {glossary_words()}")
    for title, found in (
        ("modules above 400 lines", long_modules(of)),
        ("functions with more than 8 arguments", long_signatures(of)),
        ("import cycles", cycles(of)),
        ("class names that are used twice", list(duplicated_classes(of).items())),
        ("imports past a door", past_doors(of, DOORS)),
    ):
        print(f"{title}: {len(found)}")
        for each in found:
            print("   ", *each)


if __name__ == "__main__":
    main()
