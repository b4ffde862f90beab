"""Settings for a caller on the other end of a connection, who must not see secrets.

    driver                                      caller
    described(rows)             ──────────►
                                ◄──────────     digests(wanted rows, salt)
    equal(rows, salt, digests)  ──────────►     restored(...)

The caller learns of a secret only whether it is the same as the caller's own. A digest is slow to
compute (scrypt), because a short password could be guessed from a fast one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

import msgspec

from causeway.config.changes import Scope, SettingRow, SettingRows, SettingSection
from causeway.config.key_table import Applies
from causeway.config.values import Secret

SALT_BYTES = 16
_DIGEST_BYTES = 16
_UNLIKE = Secret("\0")  # a secret that differs from the caller's; no file can have it


class DescribedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One value in force. `id` is the same in each process. `name`: the flow or cluster; empty for
    the process. `value`: as a file has it; null if there is none, or if it is `hidden`. `restart`:
    why a change needs a restart; empty if it does not. `as_start`: a flow compares a change with
    its claims, as when it starts."""

    id: str
    scope: Scope
    name: str
    part: str
    switch: str
    flow: str
    key: str
    value: str | None
    hidden: bool
    restart: str
    as_start: bool


def described(rows: SettingRows) -> tuple[DescribedSetting, ...]:
    return tuple(
        DescribedSetting(
            id=_id(section, key),
            scope=section.scope,
            name=section.name,
            part=section.part,
            switch=section.switch,
            flow=section.flow,
            key=key,
            value=None if isinstance(row.value, Secret) else row.value,
            hidden=isinstance(row.value, Secret),
            restart=row.applies.restart,
            as_start=row.applies.as_start,
        )
        for section, found in rows.items()
        for key, row in found.items()
    )


def restored(
    known: Iterable[DescribedSetting], equal_ids: Iterable[str], wanted: SettingRows
) -> SettingRows:
    """Returns the rows that were described. A secret is that of `wanted` if its id is in
    `equal_ids`."""
    same = set(equal_ids)
    found: dict[SettingSection, dict[str, SettingRow]] = {}
    for one in known:
        section = SettingSection(one.scope, one.name, one.part, one.switch, one.flow)
        value: str | Secret | None = one.value
        if one.hidden:
            known_here = wanted.get(section, {}).get(one.key)
            value = known_here.value if known_here and one.id in same else _UNLIKE
        applies = Applies(one.restart, one.as_start)
        found.setdefault(section, {})[one.key] = SettingRow(value, applies)
    return found


def digests(rows: SettingRows, salt: bytes) -> dict[str, str]:
    """Returns the digest of each secret, by id. Equal secrets are hashed once."""
    digest = _hasher(salt)
    return {name: digest(secret) for name, secret in _secrets(rows)}


def equal(rows: SettingRows, salt: bytes, theirs: Mapping[str, str]) -> list[str]:
    """Returns the ids of the secrets whose digests are the same as `theirs`."""
    digest = _hasher(salt)
    return [
        name
        for name, secret in _secrets(rows)
        if name in theirs and hmac.compare_digest(digest(secret).encode(), theirs[name].encode())
    ]


def _secrets(rows: SettingRows) -> Iterator[tuple[str, Secret]]:
    for section, found in rows.items():
        for key, row in found.items():
            if isinstance(row.value, Secret):
                yield _id(section, key), row.value


def _id(section: SettingSection, key: str) -> str:
    return " ".join(filter(None, (section.scope, section.name, section.part, section.flow, key)))


def _hasher(salt: bytes) -> Callable[[Secret], str]:
    @cache
    def digest(secret: Secret) -> str:
        text = secret.reveal().encode(errors="surrogatepass")
        return hashlib.scrypt(text, salt=salt, n=1 << 14, r=8, p=1, dklen=_DIGEST_BYTES).hex()

    return digest
