"""The server's certificate, read again when its files change, and whose clients it takes."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from causeway.config import HttpSettings, Stamp, stamp_of
from causeway.errors import ConfigError

_log = logging.getLogger("causeway.http")


class Certificate:
    """`context` is for connections to come; those that are there keep theirs."""

    def __init__(self, http: HttpSettings) -> None:
        """Raises ConfigError for files that cannot be used."""
        assert http.certificate
        assert http.key
        self._certificate, self._key = http.certificate, http.key
        self._client_ca = http.client_ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._stamps()  # before: what changes meanwhile is read again
        self._load()
        if self._client_ca:
            self.context.verify_mode = ssl.CERT_REQUIRED

    def renew(self) -> None:
        """If the files have changed. What cannot be used is told, and the one before serves on."""
        seen = self._stamps()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._load()
        except ConfigError as error:
            _log.warning("certificate not renewed", extra={"reason": str(error)})
        else:
            _log.info("certificate renewed", extra={"file": self._certificate})

    def _load(self) -> None:
        for name, path in (("certificate", self._certificate), ("key", self._key)):
            try:
                Path(path).read_bytes()
            except OSError as error:
                raise _unusable(f"causeway.http.tls.{name}", path, error) from None
        try:
            # What does not belong together would leave a context without a key: tried on another.
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                # A key with a password would be asked for on the terminal.
                context.load_cert_chain(self._certificate, self._key, password=lambda: b"")
        except (OSError, ssl.SSLError) as error:
            raise _unusable("causeway.http.tls.certificate", self._certificate, error) from None
        if self._client_ca:
            try:
                # This adds to the earlier ones: a replaced authority is trusted until a new start.
                self.context.load_verify_locations(cafile=self._client_ca)
            except (OSError, ssl.SSLError) as error:
                raise _unusable("causeway.http.tls.client.ca", self._client_ca, error) from None

    def _stamps(self) -> tuple[Stamp, ...]:
        files = (self._certificate, self._key, self._client_ca)
        return tuple(stamp_of(Path(file)) for file in files if file)


def _unusable(key: str, path: str, error: Exception) -> ConfigError:
    if isinstance(error, ssl.SSLError):
        cause = "it and its key are no PEM files that belong together, or the key has a password"
        if "client" in key:
            cause = "it holds no certificate in PEM form"
    else:
        cause = str(getattr(error, "strerror", None) or error)
    return ConfigError("use", f"{key} {path}", cause)
