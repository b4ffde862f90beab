"""Where a record says which schema it was written with.

    0 | id, 4 bytes | data                  at the beginning of key or value
    0 | id, 4 bytes |  …                    in a header `__key_schema_id`, `__value_schema_id`
    1 | GUID, 16 bytes | …                  there, as newer clients write it: a hash of the schema

The last header of that name counts; where it is null, the part itself. In Protobuf the indexes of
the message follow the id; they are the same for the same schema.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import NamedTuple

_ID = struct.Struct(">bI")
_GUID_BYTES = 17
HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
Header = tuple[str, bytes | None]


class Found(NamedTuple):
    """`name`: an id, or a GUID as text. `header`: which of the record's headers says it, None where
    the part itself does."""

    name: int | str
    header: int | None


def find(part: str, data: bytes | None, headers: Sequence[Header]) -> Found | None:
    """What the key or value `data` was written with; None: it has no such format."""
    at = _header(HEADERS[part], headers) if headers else None
    if at is not None:
        told = headers[at][1] or b""
        if len(told) >= _GUID_BYTES and told[0] == 1:
            return Found(str(uuid.UUID(bytes=told[1:_GUID_BYTES])), at)
        return None if (id := _id(told)) is None else Found(id, at)
    return None if data is None or (id := _id(data)) is None else Found(id, None)


def written(data: bytes, name: int | str) -> bytes:
    """`data`, a part or header that `find` has found a name in, with another of its kind."""
    if isinstance(name, int):
        return _ID.pack(0, name) + data[_ID.size :]
    return b"\1" + uuid.UUID(name).bytes + data[_GUID_BYTES:]


def _id(data: bytes) -> int | None:
    """No registry gives the id 0, which small numbers of 8 bytes look like."""
    if len(data) < _ID.size or data[0]:
        return None
    return _ID.unpack_from(data)[1] or None


def _header(name: str, headers: Sequence[Header]) -> int | None:
    for at in range(len(headers) - 1, -1, -1):
        if headers[at][0] == name:
            return None if headers[at][1] is None else at
    return None
