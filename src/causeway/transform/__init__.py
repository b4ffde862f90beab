"""Transforms: they change the records of a topic on their way to the target.

This door is light: it imports no Spark, no Arrow and no HTTP, so lanes and commands may use it.
Each heavy part has its own door:

rules           rules as text: parsed, compiled to SQL, or carried out without Spark
queries         carries out SQL queries without Spark
schema_formats  Avro and Protobuf with the schemas of a registry (HTTP)
plan            the driver's side: Spark analyses a transform, and Causeway checks the plan
stage           the Spark job of a transform and its Python workers (Arrow)
"""

from causeway.transform.channel import (
    Chunk,
    ChunkOutcome,
    Frame,
    Greeting,
    NeedsSpark,
    Open,
    OutletBatch,
    Refusal,
    SealedConnection,
    Setup,
    WaitingForRegistry,
    path_of,
)
from causeway.transform.crypto import (
    HEADER,
    PREFIX,
    Keys,
    aes_key,
    announced_in,
    decrypt_json,
    decrypt_value,
)
from causeway.transform.identity import identity_of
from causeway.transform.rows import MARK, SCHEMA_FORMATS, plus
from causeway.transform.session import CONTEXT, require_spark
