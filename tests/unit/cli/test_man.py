"""The manual page: all commands and options, in step with `--help`, taken by `man` as it is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from causeway.cli.main import app
from tools import man

PAGE = Path(man.__file__).with_name("causeway.1")


def commands(group: Any, context: Any) -> Iterator[tuple[str, list[str]]]:
    """Each as its heading has it, with its options."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = command.make_context(name, [], parent=context, resilient_parsing=True)
        options = [each for each in command.params if each.param_type_name == "option"]
        if not command.hidden:
            usage = " ".join(command.collect_usage_pieces(inner))
            yield f"{inner.command_path} {usage}", [name for each in options for name in each.opts]
        if hasattr(command, "list_commands"):
            yield from commands(command, inner)


def test_it_is_in_step_with_help() -> None:
    assert PAGE.read_text() == man.page(), "python -m tools.man > tools/causeway.1"


def test_it_has_every_command_and_option() -> None:
    root = typer.main.get_command(app)
    context = root.make_context("causeway", [], resilient_parsing=True)
    sections = dict(
        section.split("\n", 1)
        for section in PAGE.read_text().replace("\\-", "-").split("\n.SS ")[1:]
    )
    found = list(commands(root, context))
    assert len(found) > 30
    for heading, options in found:
        for option in options:
            assert option in sections[heading], f"{heading} {option}"


@pytest.mark.parametrize(
    "check",
    [
        ["man", "--warnings", "--encoding=UTF-8", "-l", str(PAGE)],
        ["mandoc", "-Tlint", "-Wwarning", str(PAGE)],
    ],
    ids=lambda check: check[0],
)
def test_it_is_taken_without_a_warning(check: list[str]) -> None:
    if shutil.which(check[0]) is None:
        pytest.skip(f"there is no {check[0]} here")
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
