"""Runs seeds in forked processes, and reports failures. Imported after `patches.install`."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.simulation import again, patches
from tests.simulation.kernel import Kernel
from tests.simulation.mutations import MUTATIONS
from tests.simulation.network import Network
from tests.simulation.run import Run
from tests.simulation.scenario import Scenario, choose, choose_move

_LIMIT_S = 600  # of CPU time, for one seed
_is_warm = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Of a run. `mutation`: its scenario, and without `intact` its break of the mirror. `trace`,
    `events`: print what happens, or each event. `disturbed`: objects have other addresses.
    `faults_s`: how long things go wrong; by chance unless given. `moves`: see moves.py."""

    mutation: str | None = None
    intact: bool = False
    long: bool = False
    trace: bool = False
    events: bool = False
    disturbed: bool = False
    faults_s: float | None = None
    moves: bool = False

    def scenario(self, chance: random.Random) -> Scenario:
        if self.moves:
            return choose_move(chance, faults_s=self.faults_s)
        return choose(chance, faults_s=self.faults_s, long=self.long)


_PLAIN: Final = Options()


def one(seed: int, options: Options) -> int:
    """Runs one seed in this process. Returns the exit code."""
    _warm_up()
    result = _run(seed, options)
    print(json.dumps(result, indent=1))
    return 1 if result["failure"] else 0


def many(
    seeds: Iterable[int],
    jobs: int,
    options: Options,
    *,
    digests: bool = False,
    mode: Sequence[str] = (),
) -> int:
    """Prints one line for each failure, with `digests` for each run, and a summary. `mode`: the
    options of the command that gave `options`. Returns the exit code."""
    _warm_up()
    waiting = list(seeds)[::-1]
    total, failed = len(waiting), list[int]()
    simulated_s = running_s = 0.0
    running: dict[int, tuple[int, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            seed = waiting.pop()
            pid, reader = _fork(seed, options)
            running[pid] = seed, reader
        pid, _ = os.wait()
        seed, reader = running.pop(pid)
        ended: dict[str, Any] = {
            "seed": seed,
            "failure": "it did not end",
            "simulated_s": 0.0,
            "running_s": 0.0,
            "digest": "",
        }
        result = _result(reader) or ended
        simulated_s += result["simulated_s"]
        running_s += result["running_s"]
        if digests:
            print(json.dumps(result), flush=True)
        if result["failure"]:
            failed.append(seed)
            print(f"seed {seed}: {result['failure']}", flush=True)
    hours = simulated_s / 3600
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(
        f"{total} runs, {hours:.2f} simulated hours in {cpu_s:.0f} s of CPU time; a partition ran"
        f" in {running_s / 3600:.2f} of them; {len(failed)} failed: {sorted(failed)}"
    )
    if failed:
        print(f"Again: python -m tests.simulation --seed {min(failed)} --trace {' '.join(mode)}")
    return 1 if failed else 0


def _warm_up() -> None:
    """A first run loads modules and makes the classes of kafka-python. All other runs begin with
    the same state behind it, whether they share a process with it or are forked from there."""
    patches.fix_hashes()
    _run(0, _PLAIN, choose(random.Random(0), faults_s=5.0))
    patches.fix_hashes()  # of the rest
    leaks = patches.find_leaks()
    assert not leaks, leaks


def failure(seed: int, mutation: str, *, broken: bool) -> str:
    """What is wrong in a run of the mutation's scenario, in a process of its own; with `broken` the
    mutation is in force. Empty if all is well, or the run takes too long."""
    global _is_warm
    if not _is_warm:
        _warm_up()
        _is_warm = True
    pid, reader = _fork(seed, Options(mutation=mutation, intact=not broken))
    result = _result(reader)
    os.waitpid(pid, 0)
    return str(result.get("failure", ""))


def _fork(seed: int, options: Options) -> tuple[int, int]:
    """A process that runs the seed, and the pipe that its result comes through."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        _in_child(seed, writer, options)
    os.close(writer)
    return pid, reader


def _result(reader: int) -> dict[str, Any]:
    """Empty if the process was ended."""
    with open(reader, "rb") as pipe:
        text = pipe.read()
    return dict(json.loads(text)) if text else {}


def _in_child(seed: int, writer: int, options: Options) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S))
    os.write(writer, json.dumps(_run(seed, options)).encode()[:60_000])
    os._exit(0)


def _run(seed: int, options: Options, scenario: Scenario | None = None) -> dict[str, Any]:
    gc.disable()  # a collection at another moment would be another run
    kernel = Kernel(seed)
    kernel.events = [] if options.events else None
    kernel.disturb = again.disturbance() if options.disturbed else None
    network = Network(kernel)
    patches.use(kernel, network)
    failure = ""
    run: Run | None = None
    scenario = scenario or options.scenario(kernel.random)
    try:
        made = None if options.mutation is None else MUTATIONS[options.mutation]
        if made is not None:
            focused = made.focus(scenario)
            scenario = replace(focused, faults_s=scenario.faults_s) if options.long else focused
        run = Run(kernel, network, None if options.intact else made, scenario)
        run.run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        if options.trace:
            traceback.print_exc()
    shown = kernel.events or (kernel.lines if options.trace else [])
    if shown:
        sys.stdout.write("\n".join(shown) + "\n")
    return {
        "seed": seed,
        "failure": failure,
        "simulated_s": kernel.elapsed,
        "running_s": 0.0 if run is None else run.running_s,
        "steps": kernel.steps,
        "digest": f"{kernel.digest:08x}",
    }
