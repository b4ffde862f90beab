"""How a cluster is reached, as a resource says it: from a property file's keys of one cluster.

Secrets and certificates become keys of Secrets. A `${dir:/path/NAME:KEY}` names one already; what
is written out, or comes from elsewhere, has to be put into one, which is told and not done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from causeway.config import jaas
from causeway.errors import ConfigError
from causeway.formats.causeway_yaml import login
from causeway.formats.causeway_yaml.write import bare
from causeway.formats.properties import Entry

Tree = dict[str, Any]
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_IN_SECRET = re.compile(r"\$\{(?:dir|directory):([^}]*)/([A-Za-z0-9._-]+):([A-Za-z0-9._-]+)\}")
_TYPES = {
    "PLAIN": "plain",
    "SCRAM-SHA-256": "scram-sha-256",
    "SCRAM-SHA-512": "scram-sha-512",
}
_TRUST = ("certificates", "location", "password", "type")
TRUST_KEYS = tuple(f"ssl.truststore.{name}" for name in _TRUST)
PAIR_KEYS = (
    *("ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location"),
    *("ssl.keystore.password", "ssl.keystore.type", "ssl.key.password"),
)


@dataclass(slots=True, kw_only=True)
class Made:
    """`contents`: by Secret and key, what has to be put there, for people; `texts`: the file's text
    that it stands for, where it is one value; `files`: clusters whose stores become PEM there."""

    contents: dict[tuple[str, str], str] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    names: list[str] = field(default_factory=list)

    def name(self, alias: str) -> str:
        """What the Secrets of `alias` begin with, of it alone."""
        name = re.sub(r"[^a-z0-9]+", "-", alias.lower()).strip("-") or "cluster"
        name = name if name not in self.names else f"{name}-{len(self.names)}"
        self.names.append(name)
        return name

    def key(self, text: str, secret: str, key: str, what: str) -> tuple[str, str]:
        """Secret and key that hold `text`: those it names, or new ones."""
        named = _IN_SECRET.fullmatch(text.strip())
        if named is not None:
            self.texts[named[2], named[3]] = text.strip()
            return named[2], named[3]
        said = f", {text.strip()}" if text.strip() and not _literal(text) else ""
        self.contents[secret, key] = what + said
        self.texts[secret, key] = text
        return secret, key


def cluster_tree(alias: str, texts: Mapping[str, str], made: Made) -> Tree:
    """The fields of cluster `alias`; `texts` by the keys' names without it. Raises ConfigError for
    what a resource cannot hold."""
    if "bootstrap.servers" not in texts:
        cause = "its addresses stand with its clients, and a resource has one place for them"
        raise ConfigError(
            "convert", f"cluster {alias}", cause, remedy=f"set {alias}.bootstrap.servers"
        )
    rest = dict(texts)
    name = made.name(alias)
    tree: Tree = {"alias": alias, "bootstrapServers": rest.pop("bootstrap.servers")}
    protocol = rest.get("security.protocol", "PLAINTEXT").strip().upper()
    sasl = protocol.startswith("SASL_")
    if protocol.endswith("SSL"):
        tree["tls"] = {"trustedCertificates": _trusted(alias, name, rest, made)}
    if sasl:
        tree["authentication"] = _password(alias, name, rest, made) or _custom(alias, rest)
    elif protocol == "SSL" and any(key in rest for key in PAIR_KEYS):
        tree["authentication"] = _pair(alias, name, rest, made)
    rest.pop("security.protocol", None)
    _refuse_secrets(alias, rest)
    if rest:
        tree["config"] = {key: bare(text) for key, text in rest.items()}
    return tree


def _trusted(alias: str, name: str, rest: dict[str, str], made: Made) -> list[Tree]:
    texts = {key: rest.pop(key) for key in TRUST_KEYS if key in rest}
    pem = texts.get("ssl.truststore.certificates", "").strip()
    if pem and (found := _all_in_secrets(pem)):
        for secret, key, text in found:
            made.texts[secret, key] = text
        return [{"secretName": secret, "certificate": key} for secret, key, _ in found]
    location = texts.get("ssl.truststore.location", "").strip()
    if not (pem or location):
        return []
    secret, key = f"{name}-cluster-ca-cert", "ca.crt"
    what = f"the certificates of {location}, as PEM" if location and not pem else "certificates"
    what += f" ({alias}.ssl.truststore.{'certificates' if pem else 'location'})"
    made.contents[secret, key] = what
    made.files.add(alias)
    return [{"secretName": secret, "certificate": key}]


def _all_in_secrets(text: str) -> list[tuple[str, str, str]]:
    """Secret, key and text of each reference that `text` is made of; none where it is not."""
    found = [(match[2], match[3], match[0]) for match in _IN_SECRET.finditer(text)]
    return found if not _IN_SECRET.sub("", text).strip() else []


def _pair(alias: str, name: str, rest: dict[str, str], made: Made) -> Tree:
    texts = {key: rest.pop(key) for key in PAIR_KEYS if key in rest}
    chain, key = (texts.get(f"ssl.keystore.{each}", "") for each in ("certificate.chain", "key"))
    ways = [_IN_SECRET.fullmatch(each.strip()) for each in (chain, key)]
    one, other = ways
    if one and other and one[2] == other[2] and "ssl.key.password" not in texts:
        for match in (one, other):
            made.texts[match[2], match[3]] = match[0]
        secret, names = one[2], (one[3], other[3])
    else:
        secret, names = f"{name}-client", ("user.crt", "user.key")
        store = texts.get("ssl.keystore.location", "").strip()
        where = f"of {store}" if store else f"of {alias}.ssl.keystore.*"
        made.contents[secret, names[0]] = f"the certificate chain {where}, as PEM"
        made.contents[secret, names[1]] = f"the private key {where}, as PEM without a password"
        made.files.add(alias)
    pair = {"secretName": secret, "certificate": names[0], "key": names[1]}
    return {"type": "tls", "certificateAndKey": pair}


def _password(alias: str, name: str, rest: dict[str, str], made: Made) -> Tree | None:
    """Of PLAIN and SCRAM; None for others, which stand as they are."""
    mechanism = rest.get(login.MECHANISM, "").strip().upper()
    found = login.parts(rest.get(login.JAAS, ""), mechanism) if mechanism in _TYPES else None
    if found is None or any(key in rest for key in PAIR_KEYS):
        return None
    user, word = found
    del rest[login.JAAS], rest[login.MECHANISM]
    what = f"the password in {alias}.{login.JAAS}"
    secret, key = made.key(word, f"{name}-login", "password", what)
    return {
        "type": _TYPES[mechanism],
        "username": user,
        "passwordSecret": {"secretName": secret, "password": key},
    }


def _custom(alias: str, rest: dict[str, str]) -> Tree:
    config = {key: rest.pop(key) for key in [*rest] if key.startswith(("sasl.", "ssl.keystore."))}
    _refuse_secrets(alias, config)
    return {"type": "custom", "sasl": True, "config": {k: bare(v) for k, v in config.items()}}


def _refuse_secrets(alias: str, rest: Mapping[str, str]) -> None:
    """Nothing that is written out in `rest` may be one: a resource is for all to see."""
    for key, text in rest.items():
        refuse_secret(f"{alias}.{key}", text)


def refuse_secret(key: str, text: str) -> None:
    """Raises ConfigError where `text` is one that is written out."""
    if Entry(key=key, value="", line=0).secret and _written_out(key, text):
        raise ConfigError(
            "convert",
            key,
            "it is a secret, for which a resource has no field",
            remedy="write ${env:NAME} or ${dir:/path:file} for it, then convert again",
        )


def _literal(text: str) -> bool:
    """Whether more than references stands there."""
    return bool(_REFERENCE.sub("", text).strip())


def _written_out(key: str, text: str) -> bool:
    if key.endswith(login.JAAS):
        try:
            options = jaas.parse_jaas(text).options
        except ConfigError:
            return not _REFERENCE.fullmatch(text.strip())
        hidden = re.compile("secret|password|token|assertion", re.IGNORECASE)
        return any(
            hidden.search(name) and _literal(value)
            for name, value in options.items()
            if not name.endswith(("uri", "url"))
        )
    return bool(text.strip()) and not _REFERENCE.search(text)
