"""A Spark on this machine, for a moment: to check transforms, and to try them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from causeway.config import Secret, is_local
from causeway.relay import new_secret

Conf = Mapping[str, str | Secret]
_OWN = {
    "spark.master": "local[2]",
    "spark.io.encryption.enabled": "true",
    "spark.log.level": "OFF",
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
}


@contextmanager
def local_spark(conf: Conf) -> Iterator[Any]:
    """A SparkSession, whose JVM ends with the block. Of `conf`, the file's, counts what decides
    what a query means or may use, not where it would run; what Spark puts on disk, as it does with
    a closure of more than 1 MB, is encrypted, and what it says of its own, which quotes records, is
    neither logged nor shown. Raises PrerequisiteError."""
    from causeway.daemon.spark import Spark, archive_option

    local = is_local(conf)
    kept = {
        key: value
        for key, value in conf.items()
        if local or key.startswith(("spark.sql.", "spark.jars", "spark.driver.memory"))
    }
    spark = Spark(
        {**kept, **_OWN},
        None,
        new_secret(),
        on_lane_ended=lambda *_: None,
        # What a stage's JVM compiles well, for weeks, is over here before it is compiled.
        java_options=f" -XX:TieredStopAtLevel=1{archive_option()}",
        staged=1,
    )
    spark.start()
    try:
        yield spark.session
    finally:
        spark.stop()
