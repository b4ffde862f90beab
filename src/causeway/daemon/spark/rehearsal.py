"""Starts and stops Spark once, so that Java writes a class data archive.

    python -m causeway.daemon.spark.rehearsal

At its exit Java writes the classes that it has loaded and verified to the archive, which later
starts use (environment.py). The installation runs this, and the build of a container image may. So
the rehearsal does the same as a run: a lane's job, and transforms of one record.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causeway.config import Secret, TransformSettings
from causeway.daemon.spark.context import Spark
from causeway.daemon.spark.environment import archive_path
from causeway.errors import CausewayError
from causeway.relay import new_secret

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "00" * 32
_TRANSFORMS: tuple[dict[str, str], ...] = (
    {
        "rules": "mask value.$.a keep last 4; hash value.$.b with k; encrypt value.$.c with k; "
        "generalise value.$.d to month; drop record where value.$.e is 'no' optional",
    },
    {
        "sql": "SELECT struct(mask(value.a) AS a, sha2(value.b, 256) AS b) AS value FROM records "
        "WHERE value.e IS NULL OR value.e <> 'no'",
        "value_schema": "a STRING, b STRING, e STRING",
    },
    {"sql": "SELECT * FROM records WHERE get_json_object(value, '$.a') <> 'no'"},
)
_VALUE = b'{"a":"some text","b":"more","c":"x","d":"2024-02-29"}'


def make() -> Path:
    """Makes the archive and returns its path. Takes 20 to 40 s, several times that on a busy
    machine. Raises CausewayError."""
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".making-") as folder:
        written = Path(folder) / "archive"
        spark = Spark(
            {},
            1,
            new_secret(),
            on_lane_ended=lambda *_: None,
            # In so short a run Java's best compiler only costs time.
            java_options=f" -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={written}",
            staged=1,
        )
        spark.start()
        spark.rehearse()
        for fields in _TRANSFORMS:
            _transform(spark.session, fields)
        spark.stop(patience_s=180.0)
        if not written.exists():
            raise CausewayError("make class data archive", str(path), "Java wrote none")
        written.rename(path)
    return path


def _transform(session: Any, fields: dict[str, Any]) -> None:
    from causeway.transform.plan import prepare

    transform = TransformSettings(
        name="rehearsal",
        topics=(),
        value_format="json",
        secrets={"k": Secret(_KEY)},
        place="rehearsal",
        **fields,
    )
    prepared = prepare(session, transform)
    rows = session.range(0, 1, 1, 1).mapInArrow(_record, prepared.input)
    drained = prepared.apply(rows).mapInArrow(_drain, "_ boolean")
    drained.write.format("noop").mode("overwrite").save()


def _record(start: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Works like a stage's source worker, with one record."""
    from causeway.records import PlainRecord, build
    from causeway.transform import Chunk
    from causeway.transform.stage import Rows

    for _ in start:
        pass
    record = PlainRecord(0, 0, b"key", _VALUE, [("header", b"")])
    batch = build([record], codec=0, first=0, next=1, leader_epoch=0, offsets=None)
    yield from Rows({"k": _KEY}).of(Chunk(1, "topic", 0, 1, (batch,)))


def _drain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield from ()


if __name__ == "__main__":
    try:
        make()
    except CausewayError as error:
        sys.exit(f"causeway: {error}")
