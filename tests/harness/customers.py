"""Customers in the wire formats of a schema registry, and what becomes of them.

Written and read by the formats alone: what a standard client would make of them.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from io import BytesIO
from typing import Any

import fastavro

from tests.harness.schema_registry import RegistryServer

PEPPER = "pepper-of-32-bytes-or-somewhat-more"
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "mail", "type": "string"},
    {"name": "card", "type": ["null", "string"]},
]
NOTE = {"name": "note", "type": "string", "default": ""}
FIRST_PROTO = """
syntax = "proto3";
message Unused { int32 x = 1; }
message Customer { int64 id = 1; string mail = 2; }
"""
SECOND_PROTO = FIRST_PROTO.replace("mail = 2;", "mail = 2; string note = 3;")


class Customers:
    """Writers of two versions of two schemas, and what becomes of what they have written: the mail
    masked but for its domain, the card of Avro hashed with PEPPER."""

    def __init__(self, registry: RegistryServer, prefix: str) -> None:
        self._registry = registry
        self.avro = prefix + "avro"
        self.proto = prefix + "proto"
        # Names of their own: a registry gives the same text the same id.
        name = "C" + hashlib.sha256(prefix.encode()).hexdigest()[:12]
        self._schemas: dict[int, Any] = {}
        self._name = name
        self._fields: list[dict[str, Any]] = []
        self.evolve(*FIELDS)
        self.evolve(NOTE)
        self.proto_ids = [
            registry.register(f"{self.proto}-value", f"// {name}\n{text}", "PROTOBUF")
            for text in (FIRST_PROTO, SECOND_PROTO)
        ]

    def evolve(self, *fields: dict[str, Any]) -> None:
        """A new version of the schema of Avro, with these `fields`, of text, as well."""
        self._fields = [*self._fields, *fields]
        schema = {"type": "record", "name": self._name, "fields": self._fields}
        id = self._registry.register(f"{self.avro}-value", schema)
        self._schemas[id] = fastavro.parse_schema(schema)

    @property
    def avro_ids(self) -> list[int]:
        """Of the versions, the oldest first."""
        return list(self._schemas)

    def by_avro(self, number: int, version: int) -> bytes:
        card = None if number % 3 else f"4111-{number:04}"
        value: dict[str, Any] = {"id": 2**60 + number, "mail": f"ann{number}@b.c", "card": card}
        for field in self._fields[len(FIELDS) : len(FIELDS) + version]:
            value[field["name"]] = f"note ü {number}"
        return self._avro(self.avro_ids[version], value)

    def _avro(self, id: int, value: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, self._schemas[id], value)
        return struct.pack(">bI", 0, id) + out.getvalue()

    def masked_avro(self, data: bytes) -> bytes:
        id = struct.unpack_from(">bI", data)[1]
        value: Any = fastavro.schemaless_reader(BytesIO(data[5:]), self._schemas[id], None)
        user, _, domain = value["mail"].partition("@")
        value["mail"] = f"{'*' * len(user)}@{domain}"
        if value["card"] is not None:
            value["card"] = hmac.digest(PEPPER.encode(), value["card"].encode(), "sha256").hex()
        return self._avro(id, value)

    def by_proto(self, number: int, version: int, user: str = "") -> bytes:
        note = f"note {number}" if version else ""
        fields = [b"\x08" + _varint(2**60 + number), _text(0x12, f"{user or f'bob{number}'}@b.c")]
        fields += [_text(0x1A, note)] if note else []
        head = struct.pack(">bI", 0, self.proto_ids[version])
        return head + b"\2\2" + b"".join(fields)  # the second message of the file

    def masked_proto(self, number: int, version: int) -> bytes:
        return self.by_proto(number, version, user="*" * len(f"bob{number}"))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _text(tag: int, text: str) -> bytes:
    return bytes([tag]) + _varint(len(text.encode())) + text.encode()
