"""Makes settings from the entries of a file, and reports every problem with its key and line."""

from causeway.config.reading.audit import (
    Effect,
    audit_key,
    client_key_warnings,
    is_done_anyway,
    key_warnings,
    shown_place,
    split_key,
)
from causeway.config.reading.circles import (
    check_circles,
    control_without_groups,
    with_renaming,
    without_loops,
)
from causeway.config.reading.known import CLUSTER_KEYS, ROLE_KEYS, is_worker_key
from causeway.config.reading.login import parse_jaas
from causeway.config.reading.policies import replication_policy
from causeway.config.reading.precedence import (
    ALIASES,
    OFFSETS_TOPIC,
    OVERRIDE,
    client_entries,
    flow_entries,
    is_recipe,
    offsets_topic,
    recipe_note,
    usual_offsets_topic,
    with_identity_policy,
    with_offsets,
)
from causeway.config.reading.process import (
    clear_text_warnings,
    open_spark_warnings,
    run_settings,
    spark_settings,
)
from causeway.config.reading.schemas import schema_settings, translation, treatments
from causeway.config.reading.security import client_settings
from causeway.config.reading.stores import Expiry, clients_of, expiries, expiry_warnings
from causeway.config.reading.transforms import (
    check_listed,
    listed_transforms,
    read_transforms,
    transform_entries,
    without_dead_letters,
)

__all__ = [
    "ALIASES",
    "CLUSTER_KEYS",
    "OFFSETS_TOPIC",
    "OVERRIDE",
    "ROLE_KEYS",
    "Effect",
    "Expiry",
    "audit_key",
    "check_circles",
    "check_listed",
    "clear_text_warnings",
    "client_entries",
    "client_key_warnings",
    "client_settings",
    "clients_of",
    "control_without_groups",
    "expiries",
    "expiry_warnings",
    "flow_entries",
    "is_done_anyway",
    "is_recipe",
    "is_worker_key",
    "key_warnings",
    "listed_transforms",
    "offsets_topic",
    "open_spark_warnings",
    "parse_jaas",
    "read_transforms",
    "recipe_note",
    "replication_policy",
    "run_settings",
    "schema_settings",
    "shown_place",
    "spark_settings",
    "split_key",
    "transform_entries",
    "translation",
    "treatments",
    "usual_offsets_topic",
    "with_identity_policy",
    "with_offsets",
    "with_renaming",
    "without_dead_letters",
    "without_loops",
]
