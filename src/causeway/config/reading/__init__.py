"""Makes settings from the entries of a file, and reports every problem with its key and line."""

from causeway.config.reading.audit import (
    KeyEffect,
    audit_key,
    client_key_warnings,
    is_done_anyway,
    key_warnings,
    shown_place,
    split_key,
)
from causeway.config.reading.circles import (
    check_circles,
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
    run_settings,
    safety_warnings,
    spark_settings,
)
from causeway.config.reading.reverse_flows import with_reverse_flows
from causeway.config.reading.schemas import schema_settings, translation, treatments
from causeway.config.reading.security import LoginSettings, client_settings, login_settings
from causeway.config.reading.stores import Expiry, clients_of, expiries, expiry_warnings
from causeway.config.reading.transforms import (
    check_listed,
    listed_transforms,
    read_transforms,
    without_dead_letters,
)
