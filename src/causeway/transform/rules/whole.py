"""Rules on a whole value, key or header: text, or bytes."""

from __future__ import annotations

from causeway.transform.rules import treat
from causeway.transform.rules.model import (
    Encrypt,
    Generalise,
    Hash,
    Mask,
    Rule,
    Tokenise,
    Truncate,
)
from causeway.transform.rules.query import Query
from causeway.transform.rules.sql import let, literal


def text_of(data: str) -> str:
    """Bytes as text, NULL where they are none."""
    return f"if(is_valid_utf8(cast({data} AS string)), cast({data} AS string), NULL)"


def treat_whole(query: Query, rule: Rule, data: str, place: str, path: str) -> str:
    """What becomes of `data`, binary to binary; NULL where the rule cannot treat it. `place`,
    `path`: SQL for the path with an index, and without."""
    kind = rule.kind
    text = "t"
    match kind:
        case Mask():
            new = treat.mask_text(kind, text)
        case Hash():
            return f"cast({treat.hash_bytes(kind, data)} AS binary)"
        case Encrypt():
            key = treat.aes_key(kind.key, query.secret(kind.key))
            boxed = treat.box(kind, key, query.key_size(kind.key), data, place, path)
            if kind.id_in == "header":
                query.announce(rule)
                return boxed
            return f"cast({treat.box_text(kind, boxed)} AS binary)"
        case Generalise():
            new = treat.generalise_text(kind, text)
        case Truncate():
            new = f"left({text}, {kind.length})"
        case _:
            raise AssertionError(kind)
    return f"cast({let(text_of(data), text, new)} AS binary)"


def token_call(rule: Rule, text: str) -> str:
    """For text (NULL: none) the JSON of its token."""
    assert isinstance(rule.kind, Tokenise)
    args = f"{literal(rule.kind.alphabet)}, secrets.{rule.kind.key}"
    return f"causeway_tokenise(to_json(cast({text} AS variant)), {args})"
