"""TLS contexts of clients. No text of this module shows a secret."""

from __future__ import annotations

import ssl
from functools import lru_cache

from causeway.config import ClientSettings, TlsSettings
from causeway.errors import ConfigError, for_cluster
from causeway.private_file import Unlisted

_VERSIONS = {
    ("TLSv1.2",): (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
    ("TLSv1.3",): (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ("TLSv1.2", "TLSv1.3"): (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.MAXIMUM_SUPPORTED),
}


@lru_cache(maxsize=32)
def ssl_context(tls: TlsSettings | None) -> ssl.SSLContext:
    """Returns a client context for TLS 1.2, 1.3 or both. It always checks the broker's certificate.

    As in a Java trust store, each certificate in `ca_pem` is a trust anchor, including intermediate
    certificates and the broker's own. Raises ConfigError for PEM text that cannot be used.
    """
    tls = tls or TlsSettings()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _VERSIONS[tls.versions]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = tls.verify_hostname
    if tls.ca_pem is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=tls.ca_pem)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                "use",
                "the trust store (ssl.truststore.*)",
                f"no usable certificate in it: {_reason(error)}",
            ) from None
    if tls.cert_pem is not None:
        _load_client_certificate(context, tls)
    return context


def check_certificates(client: ClientSettings) -> None:
    """Raises ConfigError, with the name of the cluster, if a certificate or key of `client` cannot
    be used."""
    if client.tls is not None:
        with for_cluster(client.alias):
            ssl_context(client.tls)


def _load_client_certificate(context: ssl.SSLContext, tls: TlsSettings) -> None:
    key = tls.key_pem.reveal() if tls.key_pem else ""
    pem = f"{tls.cert_pem}\n{key}\n".encode()
    try:
        with Unlisted(pem) as path:
            # Without a password function OpenSSL would ask the terminal for one.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            "use",
            "the key store (ssl.keystore.*)",
            f"its certificate and key can't be used: {_reason(error)}",
            remedy="the key must be unencrypted and belong to the first certificate",
        ) from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
