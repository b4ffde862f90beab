"""`--again`: whether a seed gives the same run under other conditions, event by event.

here        this checkout
elsewhere   a copy with a longer path, another folder for temporary files, another allocator, other
            variables of the environment, and objects of random sizes that come and go all the time,
            so that each address is another one
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).parents[2]
_BEFORE: Final = 12  # events before the first one that differs
_KEPT: Final = 2_000  # objects of a disturbance
_LARGEST: Final = 600  # bytes of such an object


class _Place(NamedTuple):
    """Where and how a run is started."""

    folder: Path
    environment: dict[str, str]
    words: tuple[str, ...] = ()

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.simulation", *self.words, *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        )


def check(seeds: Sequence[int], pace: int) -> int:
    """Prints each seed whose runs differ, with the first events that do. Returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="a-much-longer-path-") as folder:
        places = _Place(_ROOT, dict(os.environ)), _elsewhere(Path(folder))
        said = ",".join(map(str, seeds)) + ","
        long = ["--long"] if pace > 1 else []
        running = [place.start("--seeds", said, "--digests", *long) for place in places]
        found = [_digests(each.communicate()[0]) for each in running]
        differing = [
            each for each in seeds if each not in found[0] or found[0][each] != found[1].get(each)
        ]
        for seed in differing:
            print(f"seed {seed}: {found[0].get(seed)} here, {found[1].get(seed)} elsewhere")
            _print_first(places, seed, long)
        print(f"{len(seeds)} seeds, {len(differing)} of them give another run: {differing}")
    return 1 if differing else 0


def disturbance() -> Callable[[], None]:
    """Allocates and frees memory by real chance, so that addresses differ from run to run."""
    chance = random.Random(int.from_bytes(os.getrandom(8)))
    kept: deque[object] = deque((object() for _ in range(_KEPT)), maxlen=_KEPT)

    def disturb() -> None:
        for _ in range(chance.randrange(4)):
            size = chance.randrange(_LARGEST)
            kept.append(bytes(size) if size % 2 else [None] * (size // 8))

    return disturb


def _elsewhere(folder: Path) -> _Place:
    for name in ("src", "tests", "producer"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(_ROOT / name, folder / name, ignore=unwanted)
    temporary = folder / "temporary-files" / "in-a-folder-of-their-own"
    temporary.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": f"{folder / 'src'}:{folder / 'producer' / 'src'}",
        "TMPDIR": str(temporary),
        "OF_NO_USE": "x" * 3000,
    }
    return _Place(folder, environment, ("--disturbed",))


def _digests(output: str) -> dict[int, str]:
    """By seed."""
    found = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {each["seed"]: each["digest"] for each in found}


def _print_first(places: Sequence[_Place], seed: int, long: Sequence[str]) -> None:
    """The first events that differ, and some before."""
    running = [place.start("--seed", str(seed), "--events", *long) for place in places]
    before: deque[str] = deque(maxlen=_BEFORE)
    for here, there in zip_longest(*map(_lines, running)):
        if here != there:
            print("\n".join(before))
            print(f"here:      {here}\nelsewhere: {there}", flush=True)
            break
        before.append(here)
    for each in running:
        each.kill()
        each.wait()


def _lines(running: subprocess.Popen[str]) -> Iterator[str]:
    assert running.stdout is not None
    return (line.rstrip("\n") for line in running.stdout)
