"""The formats of the rules `encrypt`, `hash` and `tokenise` in keys and fields, and decryption.

An encrypted field, and what a reader needs besides the key (all text is UTF-8):

    field  = "cw1:" key id ":" base64 of box      (id in the field)
           | base64 of box                        (id in a header, for fields within JSON)
           | box                                  (id in a header, for a whole value, key, header)
    box    = 0x01, salt (16 bytes), iv (12 bytes), ciphertext, tag (16 bytes)
    salt, iv = the first 28 bytes of HMAC-SHA-256(key, "causeway nonce", place, text)
    ciphertext, tag = AES-GCM, key HMAC-SHA-256(key, "causeway key", salt) cut to the key's length,
                      additional data: key id, a space, and the field's path
    place  = topic, partition, offset and path, a zero byte after each
    text   = the field's JSON text; the bytes of a whole value, key or header

So the same record always becomes the same bytes, which exactly-once delivery needs. A pair of key
and IV repeats only for the same text at the same place. Paths are as in rules,
`value.$.items[*].name`, with `[*]` for every index. A header `causeway-encrypted` contains `key id
path` for each place that has no id itself."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from causeway.errors import DecryptError

HEADER = "causeway-encrypted"
PREFIX = "cw1:"
VERSION = b"\x01"
NONCE_LABEL, KEY_LABEL = "causeway nonce", "causeway key"
SALT_BYTES, IV_BYTES = 16, 12
AES_BYTES = (16, 24, 32)
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_INDEX = re.compile(r"\[[0-9]+\]")


def is_hex(key: str) -> bool:
    """Returns whether the text of a key is hex; otherwise it is base64."""
    return _HEX.fullmatch(key) is not None


def aes_key(text: str) -> bytes:
    """Decodes a key that is written in hex or base64. Raises ValueError for other texts, and for
    keys that do not have 128, 192 or 256 bits. The error does not quote the key."""
    try:
        key = bytes.fromhex(text) if is_hex(text) else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is neither hex nor base64") from None
    if len(key) not in AES_BYTES:
        raise ValueError(f"it has {len(key)} bytes; AES takes 16, 24 or 32")
    return key


class Keys:
    """Keys by id; the id is the name of the secret. `repr` shows only the ids."""

    def __init__(self, keys: Mapping[str, str | bytes]) -> None:
        """Texts of keys are hex or base64. Raises ValueError."""
        self._keys: dict[str, bytes] = {}
        for name, key in keys.items():
            try:
                self._keys[name] = aes_key(key if isinstance(key, str) else key.hex())
            except ValueError as error:
                raise ValueError(f"the key {name}: {error}") from None

    def __getitem__(self, name: str) -> bytes:
        return self._keys[name]

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __repr__(self) -> str:
        return f"Keys({', '.join(self._keys)})"


def decrypt_field(text: str, keys: Keys, path: str, key_id: str | None = None) -> Any:
    """Returns the original JSON value of a field: text, a number, an object … `path`: as in rules,
    like `value.$.name`. `key_id`: from the header, if the field has none. Raises DecryptError."""
    if text.startswith(PREFIX):
        key_id, _, text = text.removeprefix(PREFIX).partition(":")
    return json.loads(_open(_unbase64(text, path), keys, path, key_id))


def decrypt_value(data: bytes, keys: Keys, path: str = "value", key_id: str | None = None) -> bytes:
    """Returns the original bytes of a whole value, key or header. Like `decrypt_field`."""
    prefix = PREFIX.encode()
    if data.startswith(prefix):
        name, _, text = data.removeprefix(prefix).decode(errors="replace").partition(":")
        return _open(_unbase64(text, path), keys, path, name)
    return _open(data, keys, path, key_id)


def common_path(path: str) -> str:
    """Returns `path` with `[*]` for each index, as in the additional data."""
    return _INDEX.sub("[*]", path)


def decrypt_json(
    document: Any, keys: Keys, part: str = "value", announced: Mapping[str, str] | None = None
) -> Any:
    """Decrypts all fields of `document` (from `json.loads`) that contain their key's id, and the
    fields at the paths of `announced` (path: key id, from headers). `part`: value, key, or like
    `headers.user`. Raises DecryptError."""
    wild = r"(?:\.[A-Za-z0-9_-]+|\[\"[^\"]*\"\])"
    patterns = [
        (re.compile(re.escape(common_path(path)).replace(r"\.\*", wild)), key_id)
        for path, key_id in (announced or {}).items()
    ]

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {name: walk(each, path + _member(name)) for name, each in value.items()}
        if isinstance(value, list):
            return [walk(each, f"{path}[*]") for each in value]
        if not isinstance(value, str):
            return value
        if value.startswith(PREFIX):
            return decrypt_field(value, keys, path)
        for pattern, key_id in patterns:
            if pattern.fullmatch(path):
                return decrypt_field(value, keys, path, key_id)
        return value

    return walk(document, f"{part}.$")


def announced_in(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """Returns key ids by path, from the headers of a record."""
    found = {}
    for name, data in headers:
        if name == HEADER and data is not None:
            key_id, _, path = data.decode(errors="replace").partition(" ")
            found[path] = key_id
    return found


def _member(name: str) -> str:
    return f".{name}" if _PLAIN.fullmatch(name) else f'["{name}"]'


def _open(box: bytes, keys: Keys, path: str, key_id: str | None) -> bytes:
    path = common_path(path)
    if key_id is None or key_id not in keys:
        cause = "it does not say with which key" if key_id is None else f"no key {key_id} is given"
        raise DecryptError("decrypt", path, cause)
    if box[:1] != VERSION or len(box) < 1 + SALT_BYTES + IV_BYTES + 16:
        raise DecryptError("decrypt", path, "it is not what a rule `encrypt` makes")
    salt, sealed = box[1 : 1 + SALT_BYTES], box[1 + SALT_BYTES :]
    try:
        key = keys[key_id]
        cipher = AESGCM(hmac.digest(key, KEY_LABEL.encode() + salt, "sha256")[: len(key)])
        aad = f"{key_id} {path}".encode()
        return cipher.decrypt(sealed[:IV_BYTES], sealed[IV_BYTES:], aad)
    except InvalidTag:
        raise DecryptError(
            "decrypt",
            path,
            f"the key {key_id} does not fit, or the text was changed or moved from another field",
        ) from None


def _unbase64(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DecryptError("decrypt", path, "it is not what a rule `encrypt` makes") from None
