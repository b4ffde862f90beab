"""Orders with their customer's name, written back to Kafka as they come, each once.

    python -m examples.spark.join_back localhost:9092 orders customers orders.named checkpoint/

The stream of orders is joined with the customers that are known when the query starts. Ended and
started again with the same checkpoint, it goes on where it was, and doubles nothing.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from causeway.spark import CausewayDataSource


def join_back(
    spark: SparkSession, bootstrap: str, orders: str, customers: str, to: str, checkpoint: str
) -> StreamingQuery:
    """Reads what there is, then ends. Keys: of orders, theirs; of customers, the customer's number,
    which is `customer` in an order's JSON."""
    where = {"kafka.bootstrap.servers": bootstrap}
    known = (
        spark.read.format("causeway")
        .options(**where, subscribe=customers)
        .load()
        .groupBy(f.col("key").cast("string").alias("customer"))
        .agg(f.max_by(f.col("value").cast("string"), "offset").alias("name"))
    )
    written = (
        spark.readStream.format("causeway")
        .options(**where, subscribe=orders, startingOffsets="earliest")
        .load()
        .withColumn("order", f.col("value").cast("string"))
        .withColumn("customer", f.get_json_object("order", "$.customer"))
        .join(f.broadcast(known), "customer", "left")
        .select(
            "key",
            f.to_json(
                f.struct("customer", "name", f.get_json_object("order", "$.item").alias("item"))
            ).alias("value"),
            "timestamp",
        )
    )
    return (
        written.writeStream.format("causeway")
        .options(**where, topic=to, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.dataSource.register(CausewayDataSource)
    join_back(session, *sys.argv[1:6]).awaitTermination()
