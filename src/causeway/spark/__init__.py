"""Kafka topics as Spark data sources: `format("causeway")`, batch and streaming, without jars.

    spark.dataSource.register(CausewayDataSource)

This package imports PySpark. Other parts of Causeway import it inside functions only.
"""

from causeway.spark.ledger import marks, write_name
from causeway.spark.log import looked_up, read_range
from causeway.spark.source import CausewayDataSource

__all__ = ["CausewayDataSource", "looked_up", "marks", "read_range", "write_name"]
