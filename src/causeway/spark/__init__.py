"""Kafka topics as Spark data sources: `format("causeway")`, batch and streaming, no jars.

    spark.dataSource.register(CausewayDataSource)

Nothing else of Causeway loads this room: it imports PySpark.
"""

from causeway.spark.source import CausewayDataSource

__all__ = ["CausewayDataSource"]
