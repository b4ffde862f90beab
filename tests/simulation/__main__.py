"""`python -m tests.simulation`: many runs, each from a seed, in processes of their own.

--seeds 200          the seeds 0 to 199; or 300-400
--seed 17 --trace    one run, with its trace
--mutations          whether the simulations find each deliberate break of the mirror
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.simulation import patches


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts must be the same in each run.
        words = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, words, {**os.environ, "PYTHONHASHSEED": "0"})
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", default="100", help="how many, or FIRST-LAST")
    parser.add_argument("--seed", type=int, help="one run")
    parser.add_argument("--trace", action="store_true", help="print what happens in that run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--mutation", help="break the mirror in this way, see mutations/")
    parser.add_argument("--mutations", nargs="*", metavar="NAME", help="find these, or all")
    given = parser.parse_args()
    if given.mutations is not None:
        from tests.simulation import mutation_check

        return mutation_check.check(given.mutations)
    patches.install()
    from tests.simulation import runs

    if given.seed is not None:
        return runs.one(given.seed, trace=given.trace, mutation=given.mutation)
    first, _, last = given.seeds.rpartition("-")
    seeds = range(int(first), int(last) + 1) if first else range(int(last))
    return runs.many(seeds, given.jobs, given.mutation)


if __name__ == "__main__":
    sys.exit(main())
