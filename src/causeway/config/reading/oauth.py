"""Reads the login OAUTHBEARER: how a client gets its access tokens.

The keys are those of Kafka's own clients (KIP-768, KIP-1139, KIP-1258): a token from a file, client
credentials with a secret or an assertion, or an assertion alone. Strimzi's handler has options of
the login module for the same and for more grants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NoReturn, cast
from urllib.parse import unquote, urlsplit

from causeway.config.entries import read_file
from causeway.config.logins import AssertionSettings, OAuthSettings
from causeway.config.reading import login, stores
from causeway.config.reading.client_reader import STORE_TYPES, ClientReader, is_endpoint
from causeway.config.values import Secret
from causeway.errors import ConfigError

JAAS: Final = "sasl.jaas.config"
HANDLER: Final = "sasl.login.callback.handler.class"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key
_SCOPE: Final = "sasl.oauthbearer.scope"
_URL_ENCODED: Final = "sasl.oauthbearer.header.urlencode"
_RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
_ASSERTION: Final = "sasl.oauthbearer.assertion."
_ISSUER: Final = f"{_ASSERTION}claim.iss"
_ASSERTION_FILE: Final = f"{_ASSERTION}file"
_KEY_FILE: Final = f"{_ASSERTION}private.key.file"
_TEMPLATE: Final = f"{_ASSERTION}template.file"
_RETRIEVERS: Final = {
    f"org.apache.kafka.common.security.oauthbearer.{name}": name
    for name in (
        "DefaultJwtRetriever",
        "ClientCredentialsJwtRetriever",
        "FileJwtRetriever",
        "JwtBearerJwtRetriever",
    )
}
# RFC 7628, 3.1, as Kafka's clients check it.
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def read_oauth(reader: ClientReader, options: Mapping[str, str]) -> OAuthSettings | None:
    """Returns how the client gets its tokens. None after a problem, which goes to the reader's
    problems."""
    try:
        return _OAuthReader(reader, options).settings()
    except ConfigError as error:
        reader.refuse(JAAS, error)
    except _RefusedError:
        pass
    return None


class _RefusedError(Exception):
    """A value was refused. The reader's problems have the reason."""


class _OAuthReader:
    def __init__(self, reader: ClientReader, options: Mapping[str, str]) -> None:
        self._reader = reader
        self._options = options
        self._files: dict[str, str] = {}

    def settings(self) -> OAuthSettings:
        self._check_options()
        extensions = self._extensions()
        retriever = self._retriever()
        endpoint = (self._pick(ENDPOINT, "oauth.token.endpoint.uri") or "").strip()
        given = self._given_token(endpoint, retriever)
        if given is not None:
            return OAuthSettings(extensions=extensions, access_token=given, files=self._files)
        if not is_endpoint(endpoint):
            self._refuse(
                ENDPOINT,
                f"must be an http(s) URL, without user and password: these are {CLIENT_ID} and"
                f" {_CLIENT_SECRET}; or file:///PATH of a file with a token",
            )
        by_assertion = retriever == "JwtBearerJwtRetriever"
        contents = {
            field: self._content(field, JAAS, path)
            for name, field in login.FILES.items()
            if (path := self._options.get(name))
        }
        grant, fields = login.grant_of(self._options, contents)
        assertion = None
        if by_assertion:
            grant, fields = login.JWT_BEARER, {}
            assertion = self._assertion("assertion", fields)
        elif self._reader.text(_ISSUER) or self._reader.text(_ASSERTION_FILE):
            assertion = self._assertion("client_assertion", fields)
        proven = assertion is not None or bool(fields.keys() & login.PROOFS)
        client_id, secret = self._client(is_needed=not by_assertion, is_proven=proven)
        return OAuthSettings(
            token_endpoint=endpoint,
            client_id=client_id,
            client_secret=secret,
            grant=grant,
            fields=fields,
            assertion=assertion,
            scope=self._pick(_SCOPE, "scope", "oauth.scope"),
            extensions=extensions,
            is_url_encoded=self._reader.value(_URL_ENCODED, False),
            ca_pem=self._trusted(),
            files=self._files,
        )

    def _check_options(self) -> None:
        if any(name.startswith("unsecuredLogin") for name in self._options):
            cause = "unsecured tokens (unsecuredLogin...) are not supported"
            self._refuse(JAAS, f"{cause}: set {ENDPOINT}, or leave out these options")
        unknown = [name for name in self._options if not login.is_known_option(name)]
        if unknown:
            self._refuse(JAAS, login.unsupported_options(unknown))

    def _extensions(self) -> dict[str, str]:
        start = "extension_"
        found = {
            name.removeprefix(start): value
            for name, value in self._options.items()
            if name.startswith(start)
        }
        for name, value in found.items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
                self._refuse(JAAS, f"extension_{name}: only letters, and not 'auth'")
            if not _EXTENSION_VALUE.fullmatch(value):
                self._refuse(JAAS, f"extension_{name}: its value must be printable ASCII text")
        return found

    def _retriever(self) -> str:
        text = self._reader.text(_RETRIEVER)
        if text is not None and text not in _RETRIEVERS:
            known = ", ".join(_RETRIEVERS.values())
            self._refuse(_RETRIEVER, f"Causeway runs no Java class; it knows {known} of Kafka")
        return _RETRIEVERS[text] if text else "DefaultJwtRetriever"

    def _pick(self, key: str, *names: str) -> str | None:
        """Returns the value of `key`, which wins over the options `names` of the login module."""
        found = (self._options[name] for name in names if self._options.get(name))
        return self._reader.secret(key) or next(found, None)

    def _refuse(self, key: str, cause: str | ConfigError) -> NoReturn:
        self._reader.refuse(key, cause)
        raise _RefusedError

    # -- a token that another program gets

    def _given_token(self, endpoint: str, retriever: str) -> Secret | None:
        if path := self._options.get(login.ACCESS_TOKEN_FILE):
            return self._content("access_token", JAAS, path)
        if given := self._options.get(login.ACCESS_TOKEN, "").strip():
            return Secret(given)
        if endpoint.lower().startswith("file:"):
            if retriever not in ("DefaultJwtRetriever", "FileJwtRetriever"):
                self._refuse(ENDPOINT, f"{retriever} needs an http(s) URL, not a file")
            parts = urlsplit(endpoint)
            if parts.netloc not in ("", "localhost") or not parts.path:
                self._refuse(ENDPOINT, "a file on this machine is written file:///PATH")
            return self._content("access_token", ENDPOINT, unquote(parts.path))
        if retriever == "FileJwtRetriever":
            self._refuse(ENDPOINT, "FileJwtRetriever needs a file: file:///PATH")
        return None

    def _content(self, name: str, key: str, path: str) -> Secret:
        """Returns the content of a file, which is read again for each request."""
        self._files[name] = path
        text = self._read(key, path).decode("utf-8", "replace").strip()
        if not text:
            self._refuse(key, ConfigError("read", path, "it is empty"))
        return Secret(text)

    def _read(self, key: str, path: str) -> bytes:
        try:
            return read_file(Path(path))
        except ConfigError as error:
            self._refuse(key, error)

    # -- assertions

    def _assertion(
        self, sent_as: Literal["assertion", "client_assertion"], fields: dict[str, Secret]
    ) -> AssertionSettings | None:
        """Returns how to sign the assertion. None if a file has the assertion, which is then in
        `fields`. A file wins, as in Kafka's clients."""
        if sent_as == "client_assertion":
            fields.setdefault("client_assertion_type", Secret(login.ASSERTION_TYPE))
        if path := self._reader.text(_ASSERTION_FILE):
            fields[sent_as] = self._content(sent_as, _ASSERTION_FILE, path)
            return None
        path = self._reader.text(_KEY_FILE)
        if path is None:
            self._refuse(_KEY_FILE, f"it is missing: set it, or {_ASSERTION_FILE}")
        header, claims = self._template()
        for name in ("aud", "iss", "sub"):
            if text := self._reader.text(f"{_ASSERTION}claim.{name}"):
                claims.setdefault(name, text)  # the template wins, as in Kafka's clients
        algorithm = (self._reader.text(f"{_ASSERTION}algorithm") or "RS256").upper()
        return AssertionSettings(
            sent_as=sent_as,
            key_pem=self._key(path, algorithm),
            algorithm=cast(Literal["RS256", "ES256"], algorithm),
            header=json.dumps(header),
            claims=json.dumps(claims),
            lifetime_s=self._reader.value(f"{_ASSERTION}claim.exp.seconds", 300),
            not_before_s=self._reader.value(f"{_ASSERTION}claim.nbf.seconds", 60),
            has_id=self._reader.value(f"{_ASSERTION}claim.jti.include", False),
        )

    def _key(self, path: str, algorithm: str) -> Secret:
        text = self._read(_KEY_FILE, path).decode("latin-1")
        passphrase = self._reader.secret(stores.ASSERTION_PASSPHRASE)
        try:
            return stores.signing_key(text, path, passphrase, algorithm)
        except ConfigError as error:
            self._refuse(_KEY_FILE, error)

    def _template(self) -> tuple[dict[str, object], dict[str, object]]:
        """Returns the header and the claims in the template file: `{"header": {…}, "payload":
        {…}}`."""
        path = self._reader.text(_TEMPLATE)
        if path is None:
            return {}, {}
        try:
            found = json.loads(self._read(_TEMPLATE, path))
            header, claims = {**found.get("header", {})}, {**found.get("payload", {})}
        except (ValueError, AttributeError, TypeError, RecursionError):
            cause = 'it is not JSON like {"header": {}, "payload": {}}'
            self._refuse(_TEMPLATE, ConfigError("read", path, cause))
        return header, claims

    # -- the client, and the endpoint

    def _client(self, *, is_needed: bool, is_proven: bool) -> tuple[str, Secret]:
        """Returns the client's id and its secret. Kafka's clients send neither with a jwt-bearer
        grant. They may leave out the id if they sign an assertion."""
        if not is_needed:
            return "", Secret("")
        client_id = self._pick(CLIENT_ID, "clientId", "oauth.client.id")
        secret = self._pick(_CLIENT_SECRET, "clientSecret", "oauth.client.secret")
        by_key = self._reader.text(_ISSUER) or self._reader.text(_ASSERTION_FILE)
        if by_key:
            return client_id or "", Secret("")
        if client_id is None or (secret is None and not is_proven):
            needed = f"{CLIENT_ID} and {_CLIENT_SECRET}"
            self._refuse(
                JAAS,
                f"OAUTHBEARER needs {needed} (or clientId and clientSecret in the login module)",
            )
        return client_id, Secret(secret or "")

    def _trusted(self) -> str | None:
        own = {
            name: value for key, name in login.TRUST.items() if (value := self._options.get(key))
        }
        kind = own.get("type", "JKS").upper()
        if kind not in STORE_TYPES:
            self._refuse(JAAS, f"its ssl.truststore.type is one of {', '.join(STORE_TYPES)}")
        stored = own.get("certificates"), own.get("location"), own.get("password")
        return self._reader.trusted_by(JAAS, kind, *stored)
