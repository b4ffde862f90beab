"""How many records each hour of a mirrored topic has, by their own times.

python -m examples.spark.count_by_hour localhost:9092 A.orders
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from causeway.spark import CausewayDataSource


def count_by_hour(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Columns `hour` and `records`. Only the column `timestamp` is built, and committed records
    alone are counted."""
    return (
        spark.read.format("causeway")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .schema("timestamp TIMESTAMP")
        .load()
        .groupBy(f.date_trunc("hour", "timestamp").alias("hour"))
        .agg(f.count(f.lit(1)).alias("records"))
        .orderBy("hour")
    )


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.dataSource.register(CausewayDataSource)
    count_by_hour(session, sys.argv[1], sys.argv[2]).show(1000, truncate=False)
