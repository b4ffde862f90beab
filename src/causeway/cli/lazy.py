"""Sub-commands whose module is imported only when they are used or their help is shown."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

from causeway.cli import commands

# name -> module that has `app`, and its panel
LAZY: Final = {
    "dev": ("causeway.cli.dev", commands.LOCAL),
    "geo": ("causeway.cli.geo", commands.RUN),
}


class LazyGroup(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *LAZY]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        module, panel = LAZY[cmd_name]
        command = typer.main.get_group(import_module(module).app)
        command.name = cmd_name
        command.rich_help_panel = panel
        return command
