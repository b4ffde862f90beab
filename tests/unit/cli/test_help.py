"""`--help`: text that flows, the exit codes of that command alone, commands in panels."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
import typer

from causeway.cli import commands as registry
from causeway.cli.main import app, main


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def codes(help_text: str) -> set[int]:
    listed = " ".join(help_text.rpartition("Exit codes: ")[2].split())
    return {int(each) for each in re.findall(r"(?:^|· )(\d+) ", listed)}


def leaves() -> list[str]:
    """All commands, as a person types them."""

    def below(group: Any, context: Any, path: str) -> list[str]:
        found = []
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            inner = command.make_context(name, [], parent=context, resilient_parsing=True)
            if hasattr(command, "list_commands"):
                found += below(command, inner, f"{path}{name} ")
            else:
                found.append(f"{path}{name}")
        return found

    root: Any = typer.main.get_command(app)
    return below(root, root.make_context("causeway", [], resilient_parsing=True), "")


LEAVES = leaves()


@pytest.mark.parametrize("width", [80, 120])
def test_text_flows_to_the_width_of_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    text = shown(capsys, "failover")

    paragraph = text[text.index(" The command shows") : text.index("╭")].strip()
    lines = [line.strip() for line in paragraph.splitlines()]
    for line, after in pairwise(lines):
        next_word = after.split()[0]
        assert len(line) + 1 + len(next_word) > width - 2, f"{line!r} ends early"


def test_the_list_of_commands_flows_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    text = shown(capsys)

    rows = [line.strip("│ ") for line in text.splitlines() if line.startswith("│")]
    assert "verify        Compare the mirrored records with the source, and list each" in rows


@pytest.mark.parametrize(
    ("path", "has", "lacks"),
    [
        ("explain", {0, 1, 2, 3, 4, 5, 8, 130}, {7, 9, 10, 11, 13, 14}),
        ("verify", {13, 14}, {9, 10, 11}),
        ("convert", {2}, {3, 4, 5, 8, 9, 13}),
        ("pause", {9, 10}, {7, 11, 13, 14}),
        ("lanes", {9}, {3, 4, 5, 8, 13}),
        ("geo status", {7, 9, 11}, {10, 13, 14}),
        ("cutover", {7, 9, 10, 11}, {13, 14}),
    ],
)
def test_a_command_lists_its_exit_codes_alone(
    path: str, has: set[int], lacks: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    listed = codes(shown(capsys, *path.split()))

    assert listed >= has
    assert not listed & lacks


@pytest.mark.parametrize("path", [each for each in LEAVES if each != "mirror-maker"])
def test_each_command_lists_exit_codes(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert codes(shown(capsys, *path.split())) == registry.exit_codes_of(path).keys()


def test_the_table_of_exit_codes_names_commands_that_there_are() -> None:
    named = {name for each in registry.MEANINGS for name in (*each.commands, *each.but)}

    assert named <= {*LEAVES}
    assert registry.IN_SHORT.keys() == registry.all_exit_codes().keys()


def test_commands_are_grouped_in_panels(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)

    panels = {
        title: set(re.findall(r"^│ ([a-z][\w-]*)  ", body, re.MULTILINE))
        for title, body in re.findall(r"╭─ (\w+) ─+╮\n(.*?)╰", text, re.DOTALL)
        if title != "Options"
    }
    assert list(panels) == ["Run", "Look", "Control", "Move", "Transform", "Convert", "Local"]
    assert panels["Control"] == {"pause", "resume", "restart", "throttle", "step-down", "reload"}
    assert {"run", "geo", "mirror-maker"} == panels["Run"]
    assert {"version", "dev"} == panels["Local"]
    assert set().union(*panels.values()) == {each.split()[0] for each in LEAVES}
