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
from queue import Queue
from threading import Thread
from typing import Any, Final, NamedTuple

_ROOT: Final = Path(__file__).parents[2]
_BEFORE: Final = 12  # events before the first one that differs
_KEPT: Final = 2_000  # objects of a disturbance
_LARGEST: Final = 600  # bytes of such an object

_Result = dict[str, Any]


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


def check(seeds: Sequence[int], jobs: int, mode: Sequence[str]) -> int:
    """Prints each seed whose runs differ, with the first events that do. `mode`: options that each
    run has. Returns the exit code."""
    differing, failed = [], []
    with tempfile.TemporaryDirectory(prefix="a-much-longer-path-") as folder:
        places = _Place(_ROOT, dict(os.environ)), _elsewhere(Path(folder))
        said = ",".join(map(str, seeds)) + ","
        words = "--seeds", said, "--digests", "--jobs", str(jobs), *mode
        for here, there in _pairs([place.start(*words) for place in places]):
            seed = here["seed"]
            if here["failure"]:
                failed.append(seed)
                print(f"seed {seed}: {here['failure']}", flush=True)
            if here["digest"] != there["digest"]:
                differing.append(seed)
                print(f"seed {seed}: {here['digest']} here, {there['digest']} elsewhere")
                _print_first(places, seed, mode)
    print(f"{len(seeds)} seeds, failed: {sorted(failed)}; another run: {sorted(differing)}")
    return 1 if differing or failed else 0


def _pairs(running: Sequence[subprocess.Popen[str]]) -> Iterator[tuple[_Result, _Result]]:
    """The results of each seed, as soon as both runs have ended."""
    results: Queue[tuple[int, _Result]] = Queue()
    readers = [Thread(target=_read, args=(*each, results)) for each in enumerate(running)]
    for reader in readers:
        reader.start()
    waiting: tuple[dict[int, _Result], ...] = {}, {}
    ends = 0
    while ends < len(running):
        number, result = results.get()
        if not result:
            ends += 1
            continue
        waiting[number][result["seed"]] = result
        if all(result["seed"] in each for each in waiting):
            here, there = (each.pop(result["seed"]) for each in waiting)
            yield here, there
    if any(waiting):
        raise AssertionError(f"these seeds ran in one place alone: {[*waiting[0], *waiting[1]]}")


def _read(number: int, running: subprocess.Popen[str], results: Queue[tuple[int, _Result]]) -> None:
    for line in _lines(running):
        if line.startswith("{"):
            results.put((number, json.loads(line)))
    results.put((number, {}))


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


def _print_first(places: Sequence[_Place], seed: int, mode: Sequence[str]) -> None:
    """The first events that differ, and some before."""
    running = [place.start("--seed", str(seed), "--events", *mode) for place in places]
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
