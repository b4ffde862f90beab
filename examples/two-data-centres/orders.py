"""An application that writes each of its orders to two data centres.

python examples/two-data-centres/orders.py EAST WEST TOPIC --spool DIRECTORY [--count N]

It prints a line for each order once it is delivered. Killed and started again it goes on with new
orders; those that a side lacks are sent from the spool first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from causeway_producer import DualProducer

_CLIENT = {"linger.ms": 5, "compression.type": "lz4"}


def delivered(order: str, error: Any, message: Any) -> None:
    """Called from `poll` and `flush`."""
    if error is not None:
        sys.stderr.write(f"{order}: {error}\n")
    else:
        os.write(1, f"{order}\n".encode())  # at once: a line that is out was delivered


def write(producer: DualProducer, topic: str, number: int) -> None:
    """Waits while the producer has no room for more."""
    order = f"{os.getpid()}-{number}"
    while True:
        try:
            producer.produce(
                topic,
                key=f"customer {number % 100}",
                value=order,
                headers={"shop": "web"},
                on_delivery=partial(delivered, order),
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("east", help="its brokers, host:port,…; the primary side")
    parser.add_argument("west")
    parser.add_argument("topic")
    parser.add_argument("--spool", required=True, metavar="DIRECTORY")
    parser.add_argument("--count", type=int, help="orders to write; for ever if not given")
    parser.add_argument("--rate", type=float, default=0.0, help="orders a second at the most")
    parser.add_argument("--policy", default="both", help="both, primary or any")
    parser.add_argument("--settle", type=float, default=5.0, metavar="SECONDS")
    wanted = parser.parse_args(arguments)
    number = 0
    with DualProducer(
        {"bootstrap.servers": wanted.east, **_CLIENT},
        {"bootstrap.servers": wanted.west, **_CLIENT},
        spool=wanted.spool,
        policy=wanted.policy,
        settle_s=wanted.settle,
    ) as producer:
        while wanted.count is None or number < wanted.count:
            write(producer, wanted.topic, number)
            number += 1
            if wanted.rate:
                time.sleep(1 / wanted.rate)
        if not producer.close(timeout=60):
            lag = {name: side["behind_bytes"] for name, side in producer.stats()["sides"].items()}
            sys.stderr.write(f"the spool holds what a side lacks: {lag}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
