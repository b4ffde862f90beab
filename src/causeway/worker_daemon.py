"""Spark's daemon of Python workers. It loads a lane's or a stage's modules before it forks.

So a lane that replaces another one starts in milliseconds instead of a second, and lanes share the
memory of the loaded modules. None of these modules starts a thread, because forking forbids it.
"""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__":
    # Spark makes Python look for PySpark in an archive first. Python compiles the archive's modules
    # again in each process, which takes a second. If the archive is part of the installed PySpark,
    # the installed modules, which are compiled once, are the same.
    installed = tuple(os.path.join(path, "pyspark", "") for path in sys.path)
    sys.path[:] = [path for path in sys.path if not path.startswith(installed)]
    # Each worker makes its importers read the archives again, 10 MB, unless these are removed.
    for path in [path for path in sys.path_importer_cache if path.startswith(installed)]:
        del sys.path_importer_cache[path]
    gc.disable()  # loading makes no garbage

    import importlib
    import importlib.metadata  # which that reading imports

    import pyspark.daemon

    # Workers of stages have their own daemon, because Spark gives them other variables.
    if os.environ.get("SPARK_PIPELINED_UDF") == "1":
        # By its name: the door does not import it, because it loads Arrow and sets its memory pool.
        importlib.import_module("causeway.transform.stage.preload")
    else:
        from causeway.relay.lane import preload

        preload()

    # Otherwise a worker's first collection would write to all memory that workers share.
    gc.freeze()
    gc.enable()
    pyspark.daemon.manager()
