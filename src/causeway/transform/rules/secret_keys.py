"""The keys that rules name: there, and of the right length, before anything starts."""

from __future__ import annotations

from causeway.config import TransformSettings
from causeway.errors import ConfigError
from causeway.transform.crypto import aes_key
from causeway.transform.rules.model import Encrypt, Hash, Rule, Tokenise

MIN_HASH_KEY_BYTES = 16


def check_keys(rules: tuple[Rule, ...], transform: TransformSettings) -> None:
    """Raises ConfigError, which names the rule and the key but never quotes it."""
    for rule in rules:
        if not isinstance(rule.kind, Hash | Tokenise | Encrypt):
            continue
        name = rule.kind.key
        secret = transform.secrets.get(name)
        if secret is None:
            raise unusable(
                transform,
                rule,
                f"there is no secret {name}",
                remedy=f"set it in the file, as in `…transform.{transform.name}.secret.{name} = "
                "${env:…}`",
            )
        text = secret.reveal()
        if isinstance(rule.kind, Hash):
            if len(text.encode()) < MIN_HASH_KEY_BYTES:
                raise unusable(
                    transform,
                    rule,
                    f"the secret {name} is too short for a hash: with a key that can be guessed, "
                    f"so can what was hashed",
                    remedy=f"take {MIN_HASH_KEY_BYTES} characters or more",
                )
            continue
        try:
            aes_key(text)
        except ValueError as error:
            raise unusable(
                transform,
                rule,
                f"the secret {name} is no AES key: {error}",
                remedy="make one with `openssl rand -hex 32`",
            ) from None


def unusable(
    transform: TransformSettings, rule: Rule, cause: str, *, remedy: str = ""
) -> ConfigError:
    where = f"rule {rule.number} ({rule.name}), character {rule.position}"
    return ConfigError("use the rules", transform.place, f"{where}: {cause}", remedy=remedy)
