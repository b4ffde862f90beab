"""`causeway reload FILE`: makes a running driver put the changed file in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from causeway.cli.common import console, labelled, print_json
from causeway.cli.options import FileArgument, JsonOption, TimeoutOption

if TYPE_CHECKING:
    from causeway.daemon import Reloaded


def command(file: FileArgument, timeout: TimeoutOption = 120.0, as_json: JsonOption = False) -> int:
    """Put the changed file in force, in all drivers of the file on this machine.

    A driver checks the whole file first. If anything is wrong, or needs a restart, the settings in
    force stay. Run it as the user, and in the container, of the driver.
    """
    from causeway.daemon import ask_drivers
    from causeway.operate.directives import current_user

    found = ask_drivers(file, f"causeway reload, {current_user()}", timeout)
    if as_json:
        print_json({"drivers": [_as_json(each) for each in found]})
    else:
        for each in found:
            _show(each)
    return next((each.status.exit_code for each in found if each.status.exit_code), 0)


def _as_json(each: Reloaded) -> dict[str, object]:
    status = each.status
    return {
        "pid": each.pid,
        "result": status.result,
        "reason": status.reason,
        "changes": list(status.changes),
        "in_force_since_ms": status.in_force_since_ms,
        "exit_code": status.exit_code,
    }


def _show(each: Reloaded) -> None:
    status = each.status
    out = console()
    style = "red" if status.exit_code else "green"
    out.print(labelled(f"driver {each.pid}", str(status.result), style))
    for line in (*status.changes, *([status.reason] if status.reason else [])):
        out.print(labelled("", f"  {line}"))
