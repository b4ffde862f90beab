"""The one definition of JSON for rules and SQL, as Spark SQL.

A text is JSON if it is UTF-8, holds exactly one value of RFC 8259 and nothing else but white space,
and no object in it has a name twice, however the name is escaped. Readers disagree about all other
texts: one takes the first of two names and another the last, so a filter might see another value
than the consumer. The session keeps `spark.sql.variant.allowDuplicateKeys` off, see session.py.

Spark's `parse_json` is strict, but does not look behind the end of the first value. Spark's other
functions do not look there either. So the text is read within an object and within an array:

    {"v":TEXT}    [TEXT]    the latter with one element

If TEXT went on behind its first value, both could only go on with a comma, and the array would have
a second element.
"""

from __future__ import annotations

NAME = "v"  # the field of the value in the result of `reading`
NOT_JSON = "{} is not JSON, or an object in it has a name twice"


def reading(text: str) -> str:
    """SQL for a variant of an object with the value of `text` as its only field, or NULL."""
    return f"try_parse_json(concat('{{\"{NAME}\":', {text}, '}}'))"


def is_json(text: str, read: str) -> str:
    """SQL for whether `text`, which is UTF-8 or NULL, is JSON; never NULL. `read`: the SQL of
    `reading`, or its column."""
    alone = f"json_array_length(concat('[', {text}, ']')) = 1"
    return f"({read} IS NOT NULL AND coalesce({alone}, false))"
