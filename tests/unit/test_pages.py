"""Pages: every link leads to a file and heading that exist, the command line accepts every
`causeway` line, and the site has every page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token

from causeway.cli import commands, mirror_maker
from causeway.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    chain(
        ROOT.glob("*.md"),
        *(
            ROOT.glob(f"{folder}/**/*.md")
            for folder in ("docs", "examples", "deploy", "bench", "tests", "producer")
        ),
    )
)
# Taken wherever they stand.
EVERYWHERE = {"--debug", "--secrets", "--help", "--version", "-h"}


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def inline(page: Path) -> Iterator[Token]:
    for block in tokens(page):
        yield from block.children or ()


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings, and the site too."""
    found: dict[str, int] = {}
    blocks = tokens(page)
    for before, block in pairwise(blocks):
        if before.type == "heading_open":
            text = "".join(each.content for each in block.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {
        name + (f"-{n}" if n else "") for name, count in found.items() for n in range(count + 1)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    attributes = [token.attrGet("href") or token.attrGet("src") for token in inline(page)]
    html = "".join(each.content for each in tokens(page) if each.type == "html_block")
    for link in [*map(str, filter(None, attributes)), *re.findall(r' src(?:set)?="(\S+)"', html)]:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def command_lines(page: Path) -> Iterator[str]:
    """Of blocks without a language and of running text; what stands in [] is taken for said."""
    spoken = [each.content for each in inline(page) if each.type == "code_inline"]
    blocks = [each.content for each in tokens(page) if each.type == "fence" and not each.info]
    for line in "\n".join([*blocks, *spoken]).replace("\\\n", " ").splitlines():
        words = re.sub(r"^\$ |[\[\]]|\s+[#>].*", "", line)
        if re.match(r"(\.venv/bin/)?causeway [a-z-]", words):
            yield words.split("|")[0]


@cache
def known(path: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Sub-commands and options of a command; KeyError if there is none."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("causeway", [], resilient_parsing=True)
    for name in path:
        command = command.get_command(context, name)
        if command is None:
            raise KeyError(name)
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    if path == ("mirror-maker",):
        options = {
            name for each in mirror_maker.make_parser()._actions for name in each.option_strings
        }
    names = command.list_commands(context) if hasattr(command, "list_commands") else ()
    return frozenset(names), frozenset(options)


def wrong(line: str) -> str | None:
    """What the command would not know in it."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:  # running text, with an apostrophe
        words = line.split()[1:]
    path: tuple[str, ...] = ()
    options = set(EVERYWHERE)
    for word in words:
        commands, own = known(path)
        options |= own
        if word.startswith("--"):
            if (name := word.partition("=")[0].rstrip(".,…")) not in options:
                return name
        elif word in commands:
            path = (*path, word)
            options |= known(path)[1]
        elif not path and commands and re.fullmatch("[a-z-]+", word):
            return word
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_is_one(page: Path) -> None:
    found = {line: what for line in command_lines(page) if (what := wrong(line)) is not None}
    assert not found


def test_what_is_wrong_is_seen() -> None:
    assert wrong("causeway run a.properties --until-caught-up --debug") is None
    assert wrong("causeway geo topics add dc2 orders --reason x") is None
    assert wrong("causeway run a.properties --until-caught") == "--until-caught"
    assert wrong("causeway runn a.properties") == "runn"
    assert len(list(command_lines(ROOT / "docs" / "reference" / "commands.md"))) > 20


def test_the_site_has_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    decisions = ROOT / "docs" / "decisions"
    pages = [page for page in ROOT.glob("docs/**/*.md") if decisions not in page.parents]
    named = set(re.findall(r"^ +- [^#\n]+: (\S+\.md)$", site, re.MULTILINE))
    assert {str(page.relative_to(ROOT)) for page in pages} <= named
    assert all((ROOT / name).is_file() for name in named)


def test_the_reference_lists_every_exit_code() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    rows = re.findall(r"^\| (\d+) \|", page, re.MULTILINE)
    assert [int(row) for row in rows] == list(commands.IN_SHORT)


def test_the_readme_fits_a_front_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    for image in ROOT.glob("docs/images/*.png"):
        assert image.stat().st_size < 200_000, f"{image.name}: a front page has to load fast"
