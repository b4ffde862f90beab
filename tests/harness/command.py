"""The `causeway` command in a process of its own, as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2] / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def causeway(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    module: str = "causeway",
    timeout_s: float = 240,
) -> Ended:
    """Run to the end. `environment` is added to ours; `module` may be another entry point."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**command_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)


def command_environment() -> dict[str, str]:
    """Ours, with this source tree first and nothing of a terminal's."""
    paths = os.pathsep.join([str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "TERM": "dumb"}
