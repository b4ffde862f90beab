"""Whatever goes wrong is one line on stderr and a documented exit code."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from causeway.cli import commands
from causeway.cli.guard import guarded, warn
from causeway.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    CausewayError,
    ConfigError,
    OtherFormError,
    PartitionsFailedError,
    PrerequisiteError,
    UnreachableError,
)


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("read", "file.properties", "no such file"), 2),
        (UnreachableError("connect to", "A"), 3),
        (AuthenticationError("log in to", "A"), 4),
        (AuthorizationError("describe topic", "t"), 5),
        (PrerequisiteError("start Spark"), 6),
        (PartitionsFailedError("mirror", "A->B"), 7),
        (BrokerError("create topic", "t", code=44, name="POLICY_VIOLATION"), 8),
        (typer.BadParameter("not a number"), 2),
        (ValueError("two\nlines"), 1),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(error)) == code

    said = capsys.readouterr().err
    assert said.startswith("causeway: error: ")
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert code in commands.all_exit_codes()


def test_debugging_shows_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CAUSEWAY_DEBUG", "1")

    guarded(raising(CausewayError("do", "it")))

    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(KeyboardInterrupt())) == 130

    assert capsys.readouterr().err == ""


def test_a_warning_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    warn(("a", "b", "a"))

    assert capsys.readouterr().err == "causeway: warning: a\ncauseway: warning: b\n"


def test_a_file_to_write_instead_follows_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> int:
        raise OtherFormError("c.json", "it is another form", remedy="convert it", instead="a = 1\n")

    assert guarded(refuse) == 2
    said = capsys.readouterr().err
    assert said == "causeway: error: read c.json: it is another form (convert it)\n\na = 1\n"
