"""A stage on a real Spark, between workers that talk to a lane that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from causeway.daemon.spark.context import Spark
from causeway.relay.control import SECRET_VARIABLE, new_secret
from causeway.transform.rows import INPUT
from causeway.transform.stage import run_stage
from tests.harness.stage import FakeLane, Running, batch_of, chunk_of, read

pytestmark = pytest.mark.integration

SECRET = new_secret()
UNROUTED = (
    "CAST(NULL AS string) AS topic, CAST(NULL AS int) AS `partition`, offset, timestamp, key, "
    "value, headers"
)


class Select:
    """A transform with its hidden columns written out by hand."""

    def __init__(
        self, columns: str = UNROUTED, where: str = "true", source: str = "", more: str = ""
    ) -> None:
        self.input = INPUT + more
        self._columns = f"_chunk, _mark, _reason, 0L AS _seen, {columns}"
        self._source, self._where = source or "{records}", where

    def apply(self, records: Any) -> Any:
        return records.sparkSession.sql(
            f"SELECT {self._columns} FROM {self._source} "
            f"WHERE _mark IS NOT NULL OR ({self._where})",
            records=records,
        )


@pytest.fixture(scope="module")
def spark() -> Iterator[Spark]:
    spark = Spark({}, 1, SECRET, on_lane_ended=lambda *_: None, staged=3)
    spark.start()
    try:
        yield spark
    finally:
        spark.stop()


@pytest.fixture
def session(spark: Spark) -> Any:
    return spark.session


@pytest.fixture
def lane() -> Iterator[FakeLane]:
    lane = FakeLane(SECRET, {"pepper": "s3cret-pepper"})
    try:
        yield lane
    finally:
        lane.close()


def test_rows_that_a_query_keeps_come_back_as_batches(session: Any, lane: FakeLane) -> None:
    query = Select(where="value != 'b'")
    stage = Running(run_stage, session, query, lane.address, SECRET_VARIABLE, "k", "1")
    stage.start()
    lane.meet()
    lane.send(chunk_of(1, batch_of([b"a", b"b", b"c"])))
    (outcome,) = lane.take(1)
    assert [record.value for record in read(outcome)] == [b"a", b"c"]
    lane.hang_up()
    assert stage.ended() is None
