"""Key stores and trust stores of Java clients (JKS, PKCS12, PEM) as PEM text, and when they expire.

The bytes decide whether a store declared as JKS or PKCS12 is JKS or PKCS12, as in Java 9 and later.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from causeway.config.clients import ClientSettings
from causeway.config.entries import read_file
from causeway.config.settings import Settings
from causeway.config.values import Secret
from causeway.errors import ConfigError, PrerequisiteError
from causeway.extras import install_extra

if TYPE_CHECKING:
    import jks

ASSERTION_PASSPHRASE: Final = "sasl.oauthbearer.assertion.private.key.passphrase"  # noqa: S105
_JKS_MAGICS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
# Java accepts blanks for PEM's line ends: a block may be one line of a property file.
_PEM_BLOCK = re.compile(r"-+BEGIN ([A-Z0-9 ]+?)-+([A-Za-z0-9+/=\s]+)-+END \1-+")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A key and its certificates as PEM text: the chain (own certificate first) and the unencrypted
    PKCS8 key."""

    cert_pem: str
    key_pem: Secret


def read_store(path: str, kind: str) -> bytes:
    """Returns the bytes of a store. Raises ConfigError if they do not fit `kind`."""
    data = read_file(Path(path))
    is_pem = b"-----BEGIN " in data[:65536]
    if kind == "PEM" and not is_pem:
        raise ConfigError("read", path, "it holds no PEM text", remedy="is it JKS or PKCS12?")
    if kind != "PEM" and is_pem:
        raise ConfigError("read", path, f"it is PEM text, not {kind}", remedy="set its type to PEM")
    return data


def trusted_from_store(path: str, kind: str, password: str | None) -> str:
    """Returns all certificates of a trust store of `kind` JKS, PKCS12 or PEM. Raises
    ConfigError."""
    data = read_store(path, kind)
    if kind == "PEM":
        return trusted_from_pem(data.decode("latin-1"), path)
    if data.startswith(_JKS_MAGICS):
        store = _load_jks(path, data, password)
        entries = sorted(store.certs.items())
        certificates = [_certificate(entry.cert, path) for _, entry in entries]
        for _, entry in sorted(store.private_keys.items()):
            certificates += [_certificate(der, path) for _, der in entry.cert_chain[:1]]
    else:
        bundle = _load_pkcs12(path, data, password)
        own = [bundle.cert] if bundle.cert else []
        certificates = [item.certificate for item in (*own, *bundle.additional_certs)]
    if not certificates:
        raise ConfigError("read", path, "it holds no certificate")
    return _pem(certificates)


def trusted_from_pem(text: str, subject: str) -> str:
    """Returns the certificates in `text`, in standard form. Raises ConfigError, which names
    `subject`."""
    return _pem(_pem_certificates(text, subject))


def pair_from_store(
    path: str, kind: str, password: str | None, key_password: str | None
) -> KeyPair:
    """Returns the first private key of a store by alias, with its chain. Raises ConfigError."""
    data = read_store(path, kind)
    if kind == "PEM":
        text = data.decode("latin-1")
        return pair_from_pem(text, text, path, key_password)
    if data.startswith(_JKS_MAGICS):
        return _pair_from_jks(path, data, password, key_password)
    bundle = _load_pkcs12(path, data, password)
    if bundle.key is None or bundle.cert is None:
        raise ConfigError("read", path, "it holds no private key with a certificate")
    others = [item.certificate for item in bundle.additional_certs]
    return KeyPair(
        cert_pem=_pem(_chain(bundle.cert.certificate, others)), key_pem=_key_pem(bundle.key)
    )


def pair_from_pem(key_text: str, chain_text: str, subject: str, password: str | None) -> KeyPair:
    """Returns the private key and the certificate chain in PEM texts. Raises ConfigError."""
    key = _private_key(key_text, subject, password, "ssl.key.password")
    return KeyPair(cert_pem=_pem(_pem_certificates(chain_text, subject)), key_pem=_key_pem(key))


def signing_key(text: str, subject: str, passphrase: str | None, algorithm: str) -> Secret:
    """Returns the private key in a PEM text, unencrypted, for RS256 or ES256. Raises
    ConfigError."""
    key = _private_key(text, subject, passphrase, ASSERTION_PASSPHRASE)
    rsa_key = isinstance(key, rsa.RSAPrivateKey)
    p256 = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    if algorithm not in ("RS256", "ES256"):
        raise ConfigError("use", subject, "assertions are signed with RS256 or ES256")
    if not (rsa_key if algorithm == "RS256" else p256):
        needed = "an RSA key" if algorithm == "RS256" else "an EC key of the curve P-256"
        raise ConfigError("use", subject, f"{algorithm} needs {needed}")
    return _key_pem(key)


def _private_key(
    key_text: str, subject: str, password: str | None, password_key: str
) -> PrivateKeyTypes:
    blocks = [block for block in _blocks(key_text) if block[0].endswith("PRIVATE KEY")]
    if not blocks:
        raise ConfigError("read", subject, "it holds no private key")
    label, body = blocks[0]
    legacy_encrypted = "Proc-Type:" in key_text and "ENCRYPTED" in key_text
    if legacy_encrypted and not body:
        raise ConfigError("read", subject, "the key has the old OpenSSL encryption")
    encrypted = label.startswith("ENCRYPTED")
    if encrypted and password is None:
        raise ConfigError(
            "read", subject, "its private key is encrypted", remedy=f"set {password_key}"
        )
    try:
        return load_pem_private_key(
            _block_text(label, body).encode(),
            password.encode() if encrypted and password is not None else None,
        )
    except (ValueError, TypeError):
        cause = f"{password_key} is wrong" if encrypted else "its private key cannot be read"
        raise ConfigError("read", subject, cause) from None


def _pair_from_jks(
    path: str, data: bytes, password: str | None, key_password: str | None
) -> KeyPair:
    store = _load_jks(path, data, password)
    if not store.private_keys:
        raise ConfigError("read", path, "it holds no private key")
    entry = min(store.private_keys.items())[1]
    try:
        entry.decrypt(key_password if key_password is not None else password or "")
        key = load_der_private_key(entry.pkey_pkcs8, None)
    except Exception:  # as in _load_jks
        raise ConfigError(
            "read", path, f"the password of key {entry.alias} is wrong", remedy="ssl.key.password"
        ) from None
    chain = [_certificate(der, path) for _, der in entry.cert_chain]
    return KeyPair(cert_pem=_pem(chain), key_pem=_key_pem(key))


def _load_jks(path: str, data: bytes, password: str | None) -> jks.KeyStore:
    try:
        import jks  # slow to load, and few need it
    except ImportError:
        raise PrerequisiteError(
            "read",
            path,
            "it is a JKS store, and the package pyjks is not installed",
            remedy=f"{install_extra('jks')}; or convert it to a PKCS12 store: keytool "
            "-importkeystore -deststoretype PKCS12",
        ) from None
    try:
        return jks.KeyStore.loads(data, password, try_decrypt_keys=False)
    except jks.util.KeystoreSignatureException:
        raise ConfigError("read", path, "its password is wrong, or it is damaged") from None
    except Exception:  # the parser may raise anything for a damaged file
        raise ConfigError("read", path, "it is damaged, or no key store") from None


def _load_pkcs12(path: str, data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old stores use old ciphers; that is not ours to say
            return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise ConfigError(
                "read", path, "its password is wrong" if password else "it needs a password"
            ) from None
        raise ConfigError("read", path, "it is damaged, or neither JKS nor PKCS12") from None


def _certificate(der: bytes, subject: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise ConfigError("read", subject, "a certificate in it cannot be read") from None


def _pem_certificates(text: str, subject: str) -> list[x509.Certificate]:
    found = []
    for label, body in _blocks(text):
        if not label.endswith("CERTIFICATE"):
            continue
        try:
            found.append(x509.load_pem_x509_certificate(_block_text("CERTIFICATE", body).encode()))
        except ValueError:
            raise ConfigError("read", subject, "a certificate in it cannot be read") from None
    if not found:
        raise ConfigError("read", subject, "it holds no certificate")
    return found


def _blocks(text: str) -> list[tuple[str, str]]:
    return [(label.strip(), "".join(body.split())) for label, body in _PEM_BLOCK.findall(text)]


def _block_text(label: str, body: str) -> str:
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """Returns `own`, followed by the issuer of each certificate as long as `others` has it."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [item for item in others if item.subject == chain[-1].issuer]
        if not issuers or issuers[0] in chain:
            break
        chain.append(issuers[0])
    return chain


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(item.public_bytes(Encoding.PEM).decode() for item in certificates)


def _key_pem(key: PrivateKeyTypes) -> Secret:
    return Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


SOON: Final = timedelta(days=14)


class Expiry(NamedTuple):
    """When the client's own certificate or the trust store (`which`) expires. `at`: in UTC. A chain
    expires with its first certificate. A trust store expires with its last one: while an authority
    is replaced, the store holds the old certificate and the new one."""

    cluster: str
    which: Literal["client", "trusted"]
    at: datetime

    def warning(self, now: datetime | None = None) -> str | None:
        """Returns one line from `SOON` before the expiry on. None before that."""
        left = self.at - (now or datetime.fromtimestamp(time.time(), UTC))
        if left > SOON:
            return None
        what = "the client certificate" if self.which == "client" else "the trust store"
        verb = "expires" if left > timedelta(0) else "expired"
        return f"{what} for cluster {self.cluster} {verb} on {self.at:%Y-%m-%d %H:%M} UTC: renew it"


def expiries(clients: Iterable[ClientSettings]) -> tuple[Expiry, ...]:
    """Returns the expiries, sorted by cluster, without repetitions. The system's trust store is
    left out."""
    return tuple(sorted(dict.fromkeys(each for client in clients for each in _expiries_of(client))))


def clients_of(settings: Settings) -> dict[tuple[str, str], ClientSettings]:
    """Returns the client settings of all links and heartbeats, by link and role."""
    found: dict[tuple[str, str], ClientSettings] = {}
    for link in settings.links:
        found[link.name, "source"] = link.source
        found[link.name, "target"] = link.target
        found[link.name, "source admin"] = link.source_admin
        found[link.name, "target admin"] = link.target_admin
    for beat in settings.heartbeat_links:
        found[beat.name, "heartbeats"] = beat.target
    return found


def expiry_warnings(settings: Settings) -> list[str]:
    """Returns the warnings for all clusters of a file."""
    found = (each.warning() for each in expiries(clients_of(settings).values()))
    return [text for text in found if text is not None]


def _expiries_of(client: ClientSettings) -> Iterator[Expiry]:
    if client.tls is None:
        return
    if ends := _ends(client.tls.cert_pem):
        yield Expiry(client.alias, "client", min(ends))
    if ends := _ends(client.tls.ca_pem):
        yield Expiry(client.alias, "trusted", max(ends))


def _ends(pem: str | None) -> list[datetime]:
    if pem is None:
        return []
    try:
        return [each.not_valid_after_utc for each in x509.load_pem_x509_certificates(pem.encode())]
    except ValueError:  # the connection attempt reports the cause
        return []
