"""`format("causeway")`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from causeway.errors import ConfigError
from causeway.spark import columns
from causeway.spark.options import read_options, refuse_secrets
from causeway.spark.reader import BatchReader, FilteringReader, StreamReader
from causeway.spark.writer import BatchWriter, StreamWriter


class CausewayDataSource(DataSource):  # type: ignore[misc]
    """Records of Kafka topics, and where rows become such.

    `spark.dataSource.register(CausewayDataSource)`, then `format("causeway")`; the options stand in
    docs/how-to/spark-sources.md. Errors are CausewayErrors; ConfigError names the option.
    """

    @classmethod
    def name(cls) -> str:
        return "causeway"

    def schema(self) -> StructType:
        refuse_secrets(self.options)
        # Which of both kinds asks is not known here, and makes no difference to the columns.
        return columns.whole_schema(read_options(self.options, streaming=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        refuse_secrets(self.options)
        reader = BatchReader(self.options, schema)
        return FilteringReader(self.options, schema) if reader.pushes_filters else reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        refuse_secrets(self.options)
        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        refuse_secrets(self.options)
        if overwrite:
            raise ConfigError("write", "mode overwrite", "records are only added: mode append")
        return BatchWriter(self.options, schema)

    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        refuse_secrets(self.options)
        if overwrite:
            raise ConfigError("write", "output mode complete", "records are only added: append")
        return StreamWriter(self.options, schema)
