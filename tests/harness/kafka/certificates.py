"""A certificate authority of one's own, and everything signed by it, as files.

ca.pem                  who is to be trusted
broker.pem              a broker's key and certificate, for `localhost` unless said otherwise
client.pem, client.crt, client.key           a client's: both, and each alone
client-encrypted.key    the client's key, under the password
truststore.{jks,p12}    ca.pem     } in Java's own formats, under the password,
keystore.{jks,p12}      client.pem } made by keytool when first asked for
stranger.pem            an authority that signed nothing here
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from causeway.errors import CausewayError
from causeway.java import find_java

_PEM = serialization.Encoding.PEM
_PKCS8 = serialization.PrivateFormat.PKCS8
CLIENT_NAME = "client"


@dataclass(frozen=True, slots=True)
class _Identity:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self, password: str | None = None) -> bytes:
        how: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        return self.key.private_bytes(_PEM, _PKCS8, how)

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Where the files are; see the module's picture. `password` opens whatever is encrypted."""

    directory: Path
    password: str

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def stranger(self) -> Path:
        return self.directory / "stranger.pem"

    @property
    def broker(self) -> Path:
        return self.directory / "broker.pem"

    @property
    def client(self) -> Path:
        return self.directory / "client.pem"

    @property
    def client_certificate(self) -> Path:
        return self.directory / "client.crt"

    @property
    def client_key(self) -> Path:
        return self.directory / "client.key"

    @property
    def client_key_encrypted(self) -> Path:
        return self.directory / "client-encrypted.key"

    def truststore(self, kind: str) -> Path:
        """`kind`: JKS or PKCS12."""
        store = self.directory / f"truststore.{_SUFFIX[kind]}"
        if not store.exists():
            self._keytool(
                *("-importcert", "-noprompt", "-alias", "ca", "-file", str(self.ca)),
                *("-keystore", str(store), "-storetype", kind, "-storepass:env", "PASSWORD"),
            )
        return store

    def keystore(self, kind: str) -> Path:
        """`kind`: JKS or PKCS12."""
        store = self.directory / f"keystore.{_SUFFIX[kind]}"
        if not store.exists():
            self._keytool(
                *("-importkeystore", "-noprompt"),
                *("-srckeystore", str(self.directory / "client.pfx"), "-srcstoretype", "PKCS12"),
                *("-srcstorepass:env", "PASSWORD", "-deststorepass:env", "PASSWORD"),
                *("-destkeystore", str(store), "-deststoretype", kind),
            )
        return store

    def _keytool(self, *arguments: str) -> None:
        tool = subprocess.run(
            [find_java("keytool"), *arguments],
            env={**os.environ, "PASSWORD": self.password},
            capture_output=True,
            text=True,
            check=False,
        )
        if tool.returncode != 0:
            raise CausewayError("run keytool", arguments[0], (tool.stdout + tool.stderr).strip())


_SUFFIX = {"JKS": "jks", "PKCS12": "p12"}


def create_certificates(
    directory: Path,
    *,
    hostnames: Sequence[str] = ("localhost", "127.0.0.1"),
    password: str = "changeit",
) -> Certificates:
    """Fill `directory`. `hostnames` (names or addresses) are what the broker's certificate is
    for."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Certificates(directory=directory, password=password)
    authority = _issue("causeway-dev CA")
    broker = _issue("broker", authority, hostnames)
    client = _issue(CLIENT_NAME, authority)
    contents = {
        files.ca: authority.certificate_pem(),
        files.stranger: _issue("stranger CA").certificate_pem(),
        files.broker: broker.key_pem() + broker.certificate_pem(),
        files.client: client.key_pem() + client.certificate_pem(),
        files.client_certificate: client.certificate_pem(),
        files.client_key: client.key_pem(),
        files.client_key_encrypted: client.key_pem(password),
        directory / "client.pfx": pkcs12.serialize_key_and_certificates(
            b"client",
            client.key,
            client.certificate,
            [authority.certificate],
            serialization.BestAvailableEncryption(password.encode()),
        ),
    }
    for path, content in contents.items():
        path.touch(mode=0o600)
        path.write_bytes(content)
    return files


def _issue(name: str, issuer: _Identity | None = None, hostnames: Sequence[str] = ()) -> _Identity:
    """A certificate for `name`, signed by `issuer`; an authority that signs itself without."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.key if issuer else key
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        # OpenSSL's strict mode, which Python 3.13 turned on, asks for both identifiers.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=issuer is None,
                crl_sign=issuer is None,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if hostnames:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hostnames])
        builder = builder.add_extension(names, critical=False)
    return _Identity(key, builder.sign(signer, hashes.SHA256()))


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
