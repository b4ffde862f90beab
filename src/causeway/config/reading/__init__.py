"""Makes settings from the entries of a file, and reports every problem with its key and line."""

from causeway.config.reading.audit import Effect, audit_key, split_key
from causeway.config.reading.expiry import Expiry, clients_of, expiries, expiry_warnings
from causeway.config.reading.jaas import parse_jaas
from causeway.config.reading.known import CLUSTER_KEYS, ROLE_KEYS
from causeway.config.reading.precedence import Entries, client_entries, flow_entries
from causeway.config.reading.security import client_settings

__all__ = [
    "CLUSTER_KEYS",
    "ROLE_KEYS",
    "Effect",
    "Entries",
    "Expiry",
    "audit_key",
    "client_entries",
    "client_settings",
    "clients_of",
    "expiries",
    "expiry_warnings",
    "flow_entries",
    "parse_jaas",
    "split_key",
]
