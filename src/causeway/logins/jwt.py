"""JSON web tokens (RFC 7519): the assertions that a client signs, and when a token expires."""

from __future__ import annotations

import base64
import json
import time
import uuid
from typing import Any, cast

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from causeway.config import AssertionSettings

_ES256_BYTES = 32  # the size of each of a signature's two numbers; RFC 7518, 3.4


def encoded(raw: bytes) -> str:
    """base64url without padding, as RFC 7515 has it."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed_assertion(settings: AssertionSettings) -> str:
    """Returns a new assertion, for one request, with the claims and headers of Kafka's clients."""
    now = int(time.time())
    header = json.loads(settings.header) | {"alg": settings.algorithm, "typ": "JWT"}
    claims = json.loads(settings.claims) | {
        "iat": now,
        "exp": now + settings.lifetime_s,
        "nbf": now - settings.not_before_s,
    }
    if settings.has_id:
        claims["jti"] = str(uuid.uuid4())
    text = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{encoded(_signature(settings.key_pem.reveal(), text.encode()))}"


def _signature(key_pem: str, text: bytes) -> bytes:
    key = load_pem_private_key(key_pem.encode(), None)
    if isinstance(key, RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    by_curve = cast(ec.EllipticCurvePrivateKey, key)  # settings have no other keys
    numbers = decode_dss_signature(by_curve.sign(text, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(_ES256_BYTES, "big") for number in numbers)


def claims_of(token: str) -> dict[str, Any]:
    """Returns the claims of a JWT, whose signature is not checked. Empty for other tokens."""
    parts = token.split(".")
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, IndexError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def expiry_of(token: str) -> float | None:
    """Returns when a JWT expires, as Unix time; None for a token that does not say it."""
    at = claims_of(token).get("exp")
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
