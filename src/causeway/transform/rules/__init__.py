"""The rules of a transform, for people who do not write SQL: see docs/transform-rules.md."""

from causeway.transform.rules.checks import check_paths
from causeway.transform.rules.compile import to_sql
from causeway.transform.rules.model import ElementStep, FieldStep, RulePath, Step, TransformRule
from causeway.transform.rules.parse import parse, rule_names
from causeway.transform.rules.shortcut import DROPPED, Shortcut, Treat, Treated, shortcut_of, stays
from causeway.transform.rules.treat import register
