"""Spark's daemon of Python workers, with a lane's or a stage's modules loaded before it forks.

A lane that takes another's place then starts in milliseconds instead of a second, and lanes share
the memory of what was loaded. Nothing that is loaded here starts a thread, as forking demands.
"""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__":
    # Spark has Python look for PySpark in an archive first, whose modules Python compiles again in
    # each process: a second. Where that archive is part of the PySpark that is installed, the
    # latter, compiled once, is the same.
    installed = tuple(os.path.join(path, "pyspark", "") for path in sys.path)
    sys.path[:] = [path for path in sys.path if not path.startswith(installed)]
    # Each worker makes its importers read the archives again: 10 MB, if these stay.
    for path in [path for path in sys.path_importer_cache if path.startswith(installed)]:
        del sys.path_importer_cache[path]
    gc.disable()  # loading leaves nothing to collect

    import importlib
    import importlib.metadata  # which that reading asks for

    import pyspark.daemon

    # Workers of stages have a daemon of their own, as Spark gives them other variables.
    if os.environ.get("SPARK_PIPELINED_UDF") == "1":
        # By its name: it is no part of the door, as it loads Arrow and sets its memory pool.
        importlib.import_module("causeway.transform.stage.preload")
    else:
        from causeway.relay.lane import preload

        preload()

    # Else a worker's first collection would write to all that it shares with the others.
    gc.freeze()
    gc.enable()
    pyspark.daemon.manager()
