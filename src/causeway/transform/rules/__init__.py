"""The rules of a transform, for those who don't write SQL: see docs/reference/transform-rules.md.

parse.py reads the text, compile.py makes the query, tokens.py is the one function of Python in it.
"""

from causeway.transform.rules.compile import to_sql
from causeway.transform.rules.parse import parse, rule_names
from causeway.transform.rules.schema import check_paths
from causeway.transform.rules.tokens import register

__all__ = ["check_paths", "parse", "register", "rule_names", "to_sql"]
