"""Spark's daemon of Python workers, with a lane's modules loaded before it forks.

A lane that takes another's place then starts in milliseconds instead of a second, and lanes share
the memory of what was loaded. Nothing that is loaded here starts a thread, as forking demands.
"""

from __future__ import annotations

import causeway.relay.lane  # noqa: F401

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
