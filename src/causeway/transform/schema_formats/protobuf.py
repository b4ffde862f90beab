"""Protobuf to JSON and back: Protobuf's own mapping, with the field names of the .proto file,
64-bit integers as numbers, and default values of fields without presence, such as 0.

The registry has the text of .proto files; protoc, of grpcio-tools, compiles it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from grpc_tools import protoc

from causeway.transform.rules import ElementStep, FieldStep, Step
from causeway.transform.schema_formats.registry import (
    MisfitError,
    NamedSchema,
    indexes,
    place_of,
)

_MAIN = "causeway_schema.proto"
_LONG = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
_OWN_JSON = "google.protobuf."  # well-known types have their own JSON
# Messages with any JSON.
_FREE = {f"{_OWN_JSON}{name}" for name in ("Any", "Struct", "Value", "ListValue")}
_WRAPPED = {"google.protobuf.Int64Value", "google.protobuf.UInt64Value"}
Fix = Callable[[Any], Any]
Steps = tuple[Step, ...]


class Protobuf:
    """A .proto file. Its messages are identified by their indexes, as in the wire format."""

    def __init__(
        self, text: str, references: Sequence[NamedSchema] = (), paths: Sequence[Steps] = ()
    ) -> None:
        """`paths`: the paths of the rules that the JSON is for. Raises any exception for a schema
        that cannot be read."""
        files = _compile(text, references)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        main = next(file for file in files.file if file.name == _MAIN)
        prefix = f"{main.package}." if main.package else ""
        self._messages = {
            indexes: Message(pool.FindMessageTypeByName(name), place_of(indexes), paths)
            for indexes, name in _names(main.message_type, prefix)
        }

    def message(self, place: bytes) -> Message:
        """Returns the message with the encoded indexes. Raises MisfitError if there is none."""
        found = self._messages.get(indexes(place)[0])
        if found is None:
            raise MisfitError
        return found

    def like(self, other: Any) -> Message:
        """Returns the message with the name of another version's message. Raises MisfitError if
        there is none."""
        for found in self._messages.values():
            if found.name == other.name:
                return found
        raise MisfitError


class Message:
    """The codec of a message. `place`: its encoded indexes. `lacks`: for each of `paths`, whether
    no JSON of the message can have it."""

    def __init__(self, descriptor: Descriptor, place: bytes, paths: Sequence[Steps]) -> None:
        self.name: str = descriptor.full_name
        self.place = place
        self.lacks = [not _leads_on(descriptor, path) for path in paths]
        self._class = message_factory.GetMessageClass(descriptor)
        self._fix = _Longs().of(descriptor)

    def decode(self, data: bytes) -> str:
        """Returns the JSON of all of `data`. Raises MisfitError, also for unknown fields."""
        try:
            message = self._class.FromString(data)
            size = message.ByteSize()
            message.DiscardUnknownFields()
            if message.ByteSize() != size:
                raise MisfitError  # noqa: TRY301
            found = json_format.MessageToDict(
                message,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            if self._fix is not None:
                found = self._fix(found)
            return json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        except MemoryError:
            raise  # it does not quote the record
        except Exception:  # the library raises many classes for bytes of another schema
            raise MisfitError from None

    def encode(self, text: str) -> bytes:
        """Raises MisfitError."""
        if not text.lstrip().startswith("{"):
            raise MisfitError  # the library reads [] as an empty message
        try:
            message = json_format.Parse(text, self._class())
            data: bytes = message.SerializeToString(deterministic=True)
        except Exception:
            raise MisfitError from None
        return data


class _Longs:
    """Functions that make numbers of 64-bit integers, which are text in Protobuf's JSON."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._made: dict[str, Fix] = {}

    def of(self, message: Descriptor) -> Fix | None:
        """None if `message` has no 64-bit integers."""
        if message.full_name in _WRAPPED:
            return int
        if message.full_name.startswith(_OWN_JSON) or not self._has(message, set()):
            return None
        name = message.full_name
        if name not in self._made:
            fixes: dict[str, Fix] = {}

            def fix(found: Any) -> Any:
                for field, one in fixes.items():
                    if field in found:
                        found[field] = one(found[field])
                return found

            self._made[name] = fix
            for field in message.fields:
                if (one := self._of_field(field)) is not None:
                    fixes[field.name] = one
        return self._made[name]

    def _of_field(self, field: FieldDescriptor) -> Fix | None:
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            if (of_value := self._of_field(kind.fields_by_name["value"])) is None:
                return None
            return lambda found: {key: of_value(value) for key, value in found.items()}
        one = int if field.cpp_type in _LONG else self.of(kind) if kind is not None else None
        return _of_each(one) if one is not None and field.is_repeated else one

    def _has(self, message: Descriptor, seen: set[str]) -> bool:
        if message.full_name in _WRAPPED:
            return True
        if message.full_name in seen or message.full_name.startswith(_OWN_JSON):
            return False
        seen.add(message.full_name)
        return any(
            field.cpp_type in _LONG
            or (field.message_type is not None and self._has(field.message_type, seen))
            for field in message.fields
        )


def _of_each(fix: Fix) -> Fix:
    return lambda found: [fix(one) for one in found]


def _leads_on(message: Descriptor, path: Steps) -> bool:
    if not path:
        return True
    if message.full_name in _FREE:
        return True
    step = path[0]
    if message.full_name.startswith(_OWN_JSON) or not isinstance(step, FieldStep):
        return False
    return any(
        _field_leads_on(field, path[1:])
        for field in message.fields
        if step.name in (None, field.name)
    )


def _field_leads_on(field: FieldDescriptor, path: Steps) -> bool:
    kind = field.message_type
    if path and kind is not None and kind.GetOptions().map_entry:
        return isinstance(path[0], FieldStep) and _field_leads_on(
            kind.fields_by_name["value"], path[1:]
        )
    if path and field.is_repeated:
        if not isinstance(path[0], ElementStep):
            return False
        path = path[1:]
    return not path or (kind is not None and _leads_on(kind, path))


def _names(messages: Any, prefix: str) -> Iterator[tuple[tuple[int, ...], str]]:
    for index, message in enumerate(messages):
        name = prefix + message.name
        yield (index,), name
        for rest, inner in _names(message.nested_type, f"{name}."):
            yield (index, *rest), inner


def _compile(text: str, references: Sequence[NamedSchema]) -> descriptor_pb2.FileDescriptorSet:
    known = resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory(prefix="causeway-") as name, resources.as_file(known) as proto:
        folder = Path(name)
        for one in (NamedSchema(_MAIN, text), *references):
            path = PurePosixPath(one.name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(one.name)
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(one.text, "utf-8")
        made = folder / "made"
        words = ["protoc", f"-I{folder}", f"-I{proto}", "--include_imports"]
        if protoc.main([*words, f"--descriptor_set_out={made}", _MAIN]) != 0:
            raise ValueError("protoc refuses it")
        return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes())
