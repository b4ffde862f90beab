"""Starts a fire: `python -m tests.fire --minutes 10 --seed 7`."""

from __future__ import annotations

import argparse
import signal
import sys
import time

from tests.fire.run import fire


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fire", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long it burns (60)")
    parser.add_argument(
        "--seed",
        type=int,
        default=time.time_ns() % 1_000_000,
        help="decides the order of the actions; by default another one each time",
    )
    parser.add_argument(
        "--no-spark",
        action="store_true",
        help="without the transform that needs Spark, which starts slowly on a busy machine",
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is ended
    begun = time.monotonic()

    def say(text: str) -> None:
        passed = int(time.monotonic() - begun)
        print(f"{passed // 60:3}:{passed % 60:02} {text}", flush=True)

    result = fire(options.minutes, options.seed, say, spark=not options.no_spark)
    print("", *result.report, "", sep="\n")
    for fault in result.faults:
        print(f"NOT EXACT: {fault}", file=sys.stderr)
    if not result.faults:
        print("exact: nothing lost, doubled or out of order; each group at its place")
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main())
