"""Runs seeds in forked processes, and reports failures. Imported after `patches.install`."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from tests.simulation import patches
from tests.simulation.kernel import Kernel
from tests.simulation.mutations import MUTATIONS
from tests.simulation.network import Network
from tests.simulation.run import Run
from tests.simulation.scenario import Scenario, choose

_LIMIT_S = 120  # of CPU time, for one seed
_is_warm = False


def one(seed: int, *, trace: bool, mutation: str | None, pace: int) -> int:
    """Runs one seed in this process. Returns the exit code."""
    _warm_up()
    result = _run(seed, mutation, trace=trace, pace=pace)
    print(json.dumps(result, indent=1))
    return 1 if result["failure"] else 0


def many(seeds: Iterable[int], jobs: int, mutation: str | None, pace: int) -> int:
    """Prints one line for each failure, and a summary. Returns the exit code."""
    _warm_up()
    waiting = list(seeds)[::-1]
    total, failed = len(waiting), list[int]()
    simulated_s = 0.0
    running: dict[int, tuple[int, int]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            seed = waiting.pop()
            pid, reader = _fork(seed, mutation, pace)
            running[pid] = seed, reader
        pid, _ = os.wait()
        seed, reader = running.pop(pid)
        result = _result(reader) or {"failure": "it did not end", "simulated_s": 0.0}
        simulated_s += result["simulated_s"]
        if result["failure"]:
            failed.append(seed)
            print(f"seed {seed}: {result['failure']}", flush=True)
    hours = simulated_s / 3600
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(
        f"{total} runs, {hours:.2f} simulated hours in {cpu_s:.0f} s of CPU time,"
        f" {len(failed)} failed: {sorted(failed)}"
    )
    if failed:
        long = " --long" if pace > 1 else ""
        print(f"Again: python -m tests.simulation --seed {min(failed)} --trace{long}")
    return 1 if failed else 0


def _warm_up() -> None:
    """A first run loads modules and makes the classes of kafka-python. All other runs begin with
    the same state behind it, whether they share a process with it or are forked from there."""
    _run(0, None, trace=False, scenario=choose(random.Random(0), faults_s=5.0))


def failure(seed: int, mutation: str, *, broken: bool) -> str:
    """What is wrong in a run of the mutation's scenario, in a process of its own; with `broken` the
    mutation is in force. Empty if all is well, or the run takes too long."""
    global _is_warm
    if not _is_warm:
        _warm_up()
        _is_warm = True
    pid, reader = _fork(seed, mutation, 1, broken=broken)
    result = _result(reader)
    os.waitpid(pid, 0)
    return str(result.get("failure", ""))


def _fork(seed: int, mutation: str | None, pace: int, *, broken: bool = True) -> tuple[int, int]:
    """A process that runs the seed, and the pipe that its result comes through."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        _in_child(seed, writer, mutation, pace, broken=broken)
    os.close(writer)
    return pid, reader


def _result(reader: int) -> dict[str, Any]:
    """Empty if the process was ended."""
    with open(reader, "rb") as pipe:
        text = pipe.read()
    return dict(json.loads(text)) if text else {}


def _in_child(seed: int, writer: int, mutation: str | None, pace: int, *, broken: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S))
    result = _run(seed, mutation, trace=False, broken=broken, pace=pace)
    os.write(writer, json.dumps(result).encode()[:60_000])
    os._exit(0)


def _run(
    seed: int,
    mutation: str | None,
    *,
    trace: bool,
    broken: bool = True,
    scenario: Scenario | None = None,
    pace: int = 1,
) -> dict[str, Any]:
    """Without `broken` only the scenario is that of the mutation."""
    gc.disable()  # a collection at another moment would be another run
    kernel = Kernel(seed)
    network = Network(kernel)
    patches.use(kernel, network)
    failure = ""
    scenario = scenario or choose(kernel.random, pace=pace)
    try:
        made = None if mutation is None else MUTATIONS[mutation]
        if made is not None:
            scenario = made.focus(scenario)
        Run(kernel, network, made if broken else None, scenario).run()
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        if trace:
            traceback.print_exc()
    if trace:
        sys.stdout.write("\n".join(kernel.lines) + "\n")
    digest = hashlib.sha256("\n".join(kernel.lines).encode()).hexdigest()[:12]
    return {
        "seed": seed,
        "failure": failure,
        "simulated_s": kernel.elapsed,
        "steps": kernel.steps,
        "digest": digest,
    }
