"""A topic to Parquet, and back to another cluster: keys, values, headers, times, partitions.

    python -m examples.spark.to_parquet_and_back to localhost:9092 orders /backup/orders
    python -m examples.spark.to_parquet_and_back back localhost:9192 orders /backup/orders

`causeway archive` and `causeway restore` do this for many topics, go on where they ended, and make
the topics as they were. This is how it is done by hand.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from causeway.spark import CausewayDataSource


def to_parquet(spark: SparkSession, bootstrap: str, topic: str, path: str) -> None:
    (
        spark.read.format("causeway")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("headerKeys", "binary")  # names that are not UTF-8 come back as well
        .load()
        .write.parquet(path)
    )


def back(spark: SparkSession, bootstrap: str, topic: str, path: str) -> None:
    """The topic must be there, with as many partitions. Run again, it writes nothing twice."""
    frame = spark.read.parquet(path)
    tasks = max(1, frame.select("partition").distinct().count())
    (
        frame.repartition(tasks, "partition")
        .sortWithinPartitions("partition", "offset")
        .select("key", "value", "headers", "timestamp", "partition")
        .write.format("causeway")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("id", f"back-{topic}")
        .save()
    )


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.dataSource.register(CausewayDataSource)
    {"to": to_parquet, "back": back}[sys.argv[1]](session, *sys.argv[2:5])
