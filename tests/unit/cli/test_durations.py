"""Lengths of time, in the same forms for each option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from causeway.cli import options
from causeway.cli.main import app


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("5m", 300), ("1.5h", 5400), ("250ms", 0.25), ("2d", 172_800)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert options.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5y", "-1s", "1m30s", "inf", "nan"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="such as 30s, 5m or 1h"):
        options.seconds(text)


def test_what_is_too_short() -> None:
    assert options.at_least(0.1)("100ms") == 0.1
    with pytest.raises(typer.BadParameter, match="shorter than"):
        options.at_least(0.1)("50ms")


def test_all_options_take_the_same_forms() -> None:
    root = get_command(app)
    context = typer.Context(root)
    found = [
        (name, option)
        for name, command in _commands(root, "causeway")
        for option in command.params
        if {"--timeout", "--fence-for", "--every", "--duration"} & set(option.opts)
    ]
    assert len(found) > 15
    for name, option in found:
        assert option.process_value(context, "5m") == 300, (name, option.opts)
        assert option.metavar == "TIME", name


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = typer.Context(command)
    for each in command.list_commands(context):
        yield from _commands(command.get_command(context, each), f"{name} {each}")
