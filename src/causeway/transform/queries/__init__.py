"""Queries of a transform that Causeway carries out without Spark. See plan/shortcut.py, which makes
them of Spark's analysed plans.
"""

from causeway.transform.queries.expressions import (
    DIGESTS,
    KEY,
    OFFSET,
    VALUE,
    Applied,
    Coalesce,
    Constant,
    Evaluated,
    Expression,
    IsNull,
    JsonStruct,
    Junction,
    Member,
    OneOf,
    PartitionColumn,
    Same,
    Scalar,
    SchemaField,
    SecretField,
    TopicColumn,
    Whole,
)
from causeway.transform.queries.shortcut import Made, QueryShortcut, ReadAs
