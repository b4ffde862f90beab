"""`python -m tests.simulation`: many runs, each from a seed, in processes of their own.

--seeds 200          the seeds 0 to 199; or 300-400; or 3,7,20-30; or only 9 as 9,
--seed 17 --trace    one run, with its trace
--seeds 50 --again   whether a seed gives the same run under other conditions, event by event
--mutations          whether the simulations find each deliberate break of the mirror
--short              a few faults in each run
--moves              at the end the mirror moves to the other side and back
--long               days instead of minutes, with calm hours between the faults
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation import patches

_SHORT_S = 15.0  # of faults


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts must be the same in each run.
        words = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, words, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="100", help="how many, or a list: 3,7,20-30")
    parser.add_argument("--seed", type=int, help="one run")
    parser.add_argument("--trace", action="store_true", help="print what happens in that run")
    parser.add_argument("--events", action="store_true", help="print each event of that run")
    parser.add_argument("--digests", action="store_true", help="print a line for each run")
    parser.add_argument("--disturbed", action="store_true", help="with other addresses of objects")
    parser.add_argument("--again", action="store_true", help="run each seed under other conditions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutation", help="break the mirror in this way, see mutations/")
    parser.add_argument("--mutations", nargs="*", metavar="NAME", help="find these, or all")
    parser.add_argument("--long", action="store_true", help="days, in which most hours are calm")
    parser.add_argument("--short", action="store_true", help="a few faults in each run")
    parser.add_argument("--moves", action="store_true", help="move the mirror at the end")
    given = parser.parse_args()
    if given.mutations is not None:
        from tests.simulation import mutation_check

        return mutation_check.check(given.mutations)
    mode = [f"--{each}" for each in ("long", "moves", "short") if getattr(given, each)]
    if given.again:
        from tests.simulation import again

        return again.check(_seeds(given.seeds), given.jobs, mode)
    patches.install()
    from tests.simulation import runs

    options = runs.Options(
        mutation=given.mutation,
        long=given.long,
        trace=given.trace,
        events=given.events,
        disturbed=given.disturbed,
        moves=given.moves,
        faults_s=_SHORT_S if given.short else None,
    )
    if given.seed is not None:
        return runs.one(given.seed, options)
    return runs.many(_seeds(given.seeds), given.jobs, options, digests=given.digests, mode=mode)


def _seeds(text: str) -> list[int]:
    if "," not in text and "-" not in text:
        return list(range(int(text)))
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1) if first else []
    return found


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the interpreter's end would wait for simulated threads
