"""What rules make of fields, done anew from the descriptions: no code is shared with Causeway."""

from __future__ import annotations

import base64
import hmac
import json
import re
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def opened(text: str, key: bytes, path: str) -> Any:
    """What a field was, by the description in causeway/transform/crypto.py."""
    form, name, box = text.split(":")
    data = base64.b64decode(box, validate=True)
    assert (form, data[0]) == ("cw1", 1)
    salt, iv, sealed = data[1:17], data[17:29], data[29:]
    cut = hmac.digest(key, b"causeway key" + salt, "sha256")[: len(key)]
    return json.loads(AESGCM(cut).decrypt(iv, sealed, f"{name} {path}".encode()))


def tokenised(text: str, key: bytes) -> str:
    """The digits by FF1 of NIST SP 800-38G, radix 10, without a tweak."""
    digits = re.sub(r"\D", "", text)
    u = len(digits) // 2
    a, b = digits[:u], digits[u:]
    bytes_b = -(-((10 ** len(b) - 1).bit_length()) // 8)
    bytes_d = 4 * -(-bytes_b // 4) + 4
    fixed = bytes([1, 2, 1, 0, 0, 10, 10, u % 256]) + len(digits).to_bytes(4, "big") + bytes(4)

    def block(data: bytes) -> bytes:
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        return encryptor.update(data) + encryptor.finalize()

    for turn in range(10):
        filling = bytes(-(bytes_b + 1) % 16)
        data = fixed + filling + bytes([turn]) + int(b).to_bytes(bytes_b, "big")
        mac = bytes(16)
        for start in range(0, len(data), 16):
            mac = block(bytes(x ^ y for x, y in zip(mac, data[start : start + 16], strict=True)))
        m = u if turn % 2 == 0 else len(digits) - u
        assert bytes_d <= 16
        c = (int(a) + int.from_bytes(mac[:bytes_d], "big")) % 10**m
        a, b = b, f"{c:0{m}}"
    coded = iter(a + b)
    return "".join(next(coded) if char.isdigit() else char for char in text)
