"""Checks a login to MSK as the broker does: Signature Version 4, by the published rules and with
hashlib alone.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

_STAMP = "%Y%m%dT%H%M%SZ"
_SKEW = timedelta(minutes=5)
_MOST_S = 900
_KEYS = {
    "action": "Action",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "x-amz-expires": "X-Amz-Expires",
    "x-amz-security-token": "X-Amz-Security-Token",
    "x-amz-signedheaders": "X-Amz-SignedHeaders",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An access key. `principal`: whose it is; `expires`: None if it is valid for ever."""

    id: str
    secret: str
    principal: str
    token: str | None = None
    expires: datetime | None = None


class DeniedError(Exception):
    """Why the broker refuses a login."""


def payload_key(
    payload: bytes, host: str, region: str, keys: Mapping[str, Key], now: datetime
) -> Key:
    """The key that logs in by a payload of AWS_MSK_IAM to the broker `host`. Raises DeniedError."""
    try:
        given: dict[str, str] = json.loads(payload)
    except ValueError:
        raise DeniedError("the payload is not JSON") from None
    if given.get("version") != "2020_10_22" or not given.get("user-agent"):
        raise DeniedError("no version or user agent")
    if given.get("host") != host:
        raise DeniedError(f"signed for host {given.get('host')}")
    known = {*_KEYS, "version", "host", "user-agent", "x-amz-signature"}
    if strange := given.keys() - known:
        raise DeniedError(f"unknown fields {sorted(strange)}")
    query = {name: given[key] for key, name in _KEYS.items() if key in given}
    return _key(query, given.get("x-amz-signature", ""), host, region, keys, now)


def token_key(token: bytes, region: str, keys: Mapping[str, Key], now: datetime) -> Key:
    """The key that logs in by a token of OAUTHBEARER. Raises DeniedError."""
    if b"=" in token:
        raise DeniedError("the token has padding")
    url = urlsplit(base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4)).decode())
    host = f"kafka.{region}.amazonaws.com"
    if (url.scheme, url.netloc, url.path) not in {("https", host, "/"), ("https", host, "")}:
        raise DeniedError(f"a token for {url.netloc}")
    query = dict(parse_qsl(url.query, strict_parsing=True))
    if not query.pop("User-Agent", ""):
        raise DeniedError("no user agent")
    signature = query.pop("X-Amz-Signature", "")
    return _key(query, signature, host, region, keys, now)


def _key(
    query: Mapping[str, str],
    signature: str,
    host: str,
    region: str,
    keys: Mapping[str, Key],
    now: datetime,
) -> Key:
    if query.get("Action") != "kafka-cluster:Connect":
        raise DeniedError("not kafka-cluster:Connect")
    if query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
        raise DeniedError("unknown algorithm")
    if query.get("X-Amz-SignedHeaders") != "host":
        raise DeniedError("signs other headers")
    stamp = query.get("X-Amz-Date", "")
    signed_at = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    life_s = int(query.get("X-Amz-Expires", "0"))
    if not 0 < life_s <= _MOST_S:
        raise DeniedError(f"valid for {life_s} s")
    if not signed_at - _SKEW <= now < signed_at + timedelta(seconds=life_s):
        raise DeniedError("Signature expired")
    key_id, *scope = query.get("X-Amz-Credential", "").split("/")
    if scope != [stamp[:8], region, "kafka-cluster", "aws4_request"]:
        raise DeniedError(f"Credential should be scoped to {region}, not {'/'.join(scope)}")
    key = keys.get(key_id)
    if key is None or query.get("X-Amz-Security-Token") != key.token:
        raise DeniedError("The security token included in the request is invalid")
    if key.expires is not None and now >= key.expires:
        raise DeniedError("The security token included in the request is expired")
    if not hmac.compare_digest(signature_of(query, host, key.secret), signature):
        raise DeniedError("the signature does not match")
    return key


def signature_of(query: Mapping[str, str], host: str, secret: str) -> str:
    """Of a GET to `host` without a body, with these parameters."""
    parameters = sorted((quote(k, safe=""), quote(v, safe="")) for k, v in query.items())
    canonical = "\n".join(
        (
            "GET",
            "/",
            "&".join(f"{name}={value}" for name, value in parameters),
            f"host:{host}",
            "",
            "host",
            hashlib.sha256(b"").hexdigest(),
        )
    )
    scope = query["X-Amz-Credential"].split("/")[1:]
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(("AWS4-HMAC-SHA256", query["X-Amz-Date"], "/".join(scope), digest))
    key = b"AWS4" + secret.encode()
    for part in (*scope, text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()
