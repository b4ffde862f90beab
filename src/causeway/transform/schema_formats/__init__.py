"""Keys and values in the wire format of a schema registry: Avro and Protobuf to JSON and back."""

from causeway.transform.schema_formats.codecs import HEAD, NO_HEAD, Schemas, encoded, require
from causeway.transform.schema_formats.registry import WorkerRegistry
