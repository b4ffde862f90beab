"""Schema registries: one is copied into another, or the ids in records are translated."""

from causeway.schemas.client import RegistryClient, UnansweredError, check_registry
from causeway.schemas.ids import (
    HEADERS,
    IdLookup,
    Ids,
    SchemaId,
    Unknown,
    find_schema_id,
    with_schema_id,
)
from causeway.schemas.link import TASK, Due, LinkSchemas
from causeway.schemas.registry import CircularError, LateAnswers, Schema, SchemaRegistry, Trail
