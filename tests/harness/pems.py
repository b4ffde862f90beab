"""Certificates and their keys, made on the spot."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    name: str
    key: rsa.RSAPrivateKey
    cert: x509.Certificate

    @property
    def cert_pem(self) -> str:
        return self.cert.public_bytes(Encoding.PEM).decode()


def make_certificate(name: str, issuer: Made | None = None) -> Made:
    """Good for a day; signed by itself where there is no `issuer`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .issuer_name(issuer.cert.subject if issuer else subject)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    cert = builder.sign(issuer.key if issuer else key, SHA256())
    return Made(name=name, key=key, cert=cert)


def make_pem(
    encryption: KeySerializationEncryption | None = None,
    form: PrivateFormat = PrivateFormat.PKCS8,
) -> tuple[str, str]:
    """`(key, certificate)` as PEM text."""
    made = make_certificate("pem")
    key = made.key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()).decode()
    return key, made.cert_pem
