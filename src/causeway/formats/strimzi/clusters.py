"""Reads how a cluster is reached: addresses, TLS, authentication and config.

A cluster's `config` comes last and wins, as with Strimzi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from causeway.config import CLUSTER_ID, Problems
from causeway.formats.causeway_yaml.read import YamlEntry
from causeway.formats.logins import OAUTH, PLAIN, SCRAM, login_option
from causeway.formats.strimzi import shape
from causeway.formats.strimzi.fields import Given, Tree
from causeway.formats.strimzi.secrets import References, Secrets, is_provider

_MECHANISMS = {
    "plain": ("PLAIN", PLAIN),
    "scram-sha-256": ("SCRAM-SHA-256", SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", SCRAM),
}
# Strimzi passes on only these keys of `custom`.
_CUSTOM = ("sasl.", "ssl.keystore.")
_NEEDS_MORE = ("accessTokenLocation", "clientAssertionLocation", "grantType")
# Options of Strimzi's own handler, in addition to a client's secret or instead of it.
_OAUTH_SECRETS = {
    "refreshToken": "oauth.refresh.token",
    "clientAssertion": "oauth.client.assertion",
}
_OAUTH_TEXTS = {
    "audience": "oauth.audience",
    "clientAssertionType": "oauth.client.assertion.type",
    "username": "oauth.password.grant.username",
}
_KAFKAS_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
# Keys of the whole file. A resource has them in the config of its target.
_OF_THE_FILE = ("causeway.", "spark.")
_OF_A_CLUSTER = ("causeway.registry.", CLUSTER_ID)


@dataclass(slots=True, kw_only=True)
class ResourceReader:
    """Adds to `entries`. `ignored`: paths of fields without meaning here. `whole`: keys of the
    whole file in the target's config, which win over all others."""

    entries: dict[str, YamlEntry]
    secrets: Secrets
    references: References
    problems: Problems
    ignored: list[str]
    version: str
    whole: dict[str, Given] = field(default_factory=dict)

    def add(self, key: str, given: Given, value: str | None = None) -> None:
        """A later value of a key wins."""
        self.entries[key] = given.entry(key, value)

    def cluster(self, tree: Tree, *, target: bool) -> None:
        alias = tree.texts["alias"].text
        self.add(f"{alias}.bootstrap.servers", tree.texts["bootstrapServers"])
        tls, who = tree.trees.get("tls"), tree.trees.get("authentication")
        if tls is not None:
            self._trust(alias, tls)
        sasl = who is not None and self._who(alias, who, tls)
        protocol = ("SASL_" if sasl else "") + ("PLAINTEXT" if tls is None else "SSL")
        self.add(f"{alias}.security.protocol", (who or tls or tree).given, protocol)
        for name, given in tree.keys.get("config", {}).items():
            if is_provider(name):
                continue
            plain = self.references.plain(given)
            whole = "->" in name or name.startswith(_OF_THE_FILE)
            if target and whole and not name.startswith(_OF_A_CLUSTER):
                self.whole[name] = plain
            else:
                self.add(f"{alias}.{name}", plain)

    def _trust(self, alias: str, tls: Tree) -> None:
        """An empty list means the system's certificates."""
        if found := self._pems(tls.items.get("trustedCertificates", ())):
            self.add(f"{alias}.ssl.truststore.certificates", tls.given, found)
            self.add(f"{alias}.ssl.truststore.type", tls.given, "PEM")

    def _pems(self, items: Iterable[Tree]) -> str:
        return "\n".join(text for each in items for text in self._pem(each))

    def _pem(self, tree: Tree) -> Iterator[str]:
        name, certificate = tree.texts.get("secretName"), tree.texts.get("certificate")
        pattern = tree.texts.get("pattern")
        if (certificate is None) is (pattern is None):
            self.problems.add(f"{tree.where} must have either certificate or pattern")
        elif name is not None and pattern is not None:
            yield from self.secrets.matching(name, pattern)
        elif name is not None and certificate is not None:
            found = self.secrets.reference(name, certificate)
            if found is not None:
                yield found

    # -- who we are

    def _who(self, alias: str, who: Tree, tls: Tree | None) -> bool:
        """Whether it is by SASL."""
        match who.texts["type"].text:
            case "tls":
                self._pair(alias, who, tls)
                return False
            case "oauth":
                self._oauth(alias, who)
            case "custom":
                return self._custom(alias, who)
            case kind:
                self._password(alias, who, *_MECHANISMS[kind])
        return True

    def _pair(self, alias: str, who: Tree, tls: Tree | None) -> None:
        pair = who.trees.get("certificateAndKey")
        if tls is None:
            self.problems.add(
                f"{who.where} needs tls as well: without TLS no data is encrypted and no"
                " certificate is sent"
            )
        if pair is None:
            self.problems.add(f"{who.where} has no certificateAndKey")
            return
        name = pair.texts["secretName"]
        for part, key in (("certificate", "certificate.chain"), ("key", "key")):
            found = self.secrets.reference(name, pair.texts[part])
            if found is not None:
                self.add(f"{alias}.ssl.keystore.{key}", pair.texts[part], found)
        self.add(f"{alias}.ssl.keystore.type", pair.given, "PEM")

    def _password(self, alias: str, who: Tree, mechanism: str, module: str) -> None:
        user, word = who.texts.get("username"), who.trees.get("passwordSecret")
        for name, found in (("username", user), ("passwordSecret", word)):
            if found is None:
                self.problems.add(f"{who.where} has no {name}")
        self.add(f"{alias}.sasl.mechanism", who.texts["type"], mechanism)
        if user is not None and word is not None:
            self.add(login_option(alias, module, "username"), user)
            key = word.texts["password"]
            self._option(alias, module, "password", word.texts["secretName"], key)

    def _oauth(self, alias: str, who: Tree) -> None:
        """Client credentials as with Kafka's own handler, and the other grants of Strimzi."""
        if self.version != shape.OLD:
            self.problems.add(
                f"{who.texts['type'].where} is of {shape.OLD}: write type: custom with sasl: true,"
                " and sasl.mechanism: OAUTHBEARER and its keys under config"
            )
            return
        for name in _NEEDS_MORE:
            part = who.texts.get(name) or who.trees.get(name)
            if part is not None or who.items.get(name):
                where = part.where if part is not None else f"{who.path}.{name}"
                self.problems.add(f"{where} is not supported: set the client's id and secret")
        unchecked = who.texts.get("disableTlsHostnameVerification")
        if unchecked is not None and unchecked.text == "true":
            self.problems.add(f"{unchecked.where} is not supported: the host is always verified")
        if (token := who.trees.get("accessToken")) is not None:
            self._sasl_oauth(alias, who)
            key = token.texts["key"]
            self._option(alias, OAUTH, "oauth.access.token", token.texts["secretName"], key)
            self._extensions(alias, who)
            return
        secret, word = who.trees.get("clientSecret"), who.trees.get("passwordSecret")
        for name in ("clientId", "tokenEndpointUri"):
            if name not in who.texts:
                self.problems.add(f"{who.where} has no {name}")
        proved = secret or word or any(name in who.trees for name in _OAUTH_SECRETS)
        if not proved:
            self.problems.add(f"{who.where} has no clientSecret")
        if not proved or not {"clientId", "tokenEndpointUri"} <= who.texts.keys():
            return
        self._sasl_oauth(alias, who)
        self.add(f"{alias}.sasl.oauthbearer.token.endpoint.url", who.texts["tokenEndpointUri"])
        self.add(login_option(alias, OAUTH, "clientId"), who.texts["clientId"])
        if secret is not None:
            key = secret.texts["key"]
            self._option(alias, OAUTH, "clientSecret", secret.texts["secretName"], key)
        for name, option in _OAUTH_SECRETS.items():
            if (proof := who.trees.get(name)) is not None:
                self._option(alias, OAUTH, option, proof.texts["secretName"], proof.texts["key"])
        for name, option in _OAUTH_TEXTS.items():
            if name in who.texts:
                self.add(login_option(alias, OAUTH, option), who.texts[name])
        if word is not None:
            option, key = "oauth.password.grant.password", word.texts["password"]
            self._option(alias, OAUTH, option, word.texts["secretName"], key)
        trusted = self._pems(who.items.get("tlsTrustedCertificates", ()))
        if trusted:
            store = login_option(alias, OAUTH, "oauth.ssl.truststore")
            self.add(f"{store}.certificates", who.given, trusted)
            self.add(f"{store}.type", who.given, "PEM")
        if "scope" in who.texts:
            self.add(login_option(alias, OAUTH, "scope"), who.texts["scope"])
        self._extensions(alias, who)

    def _sasl_oauth(self, alias: str, who: Tree) -> None:
        self.add(f"{alias}.sasl.mechanism", who.texts["type"], "OAUTHBEARER")
        handler = f"{alias}.sasl.login.callback.handler.class"
        self.add(handler, who.texts["type"], _KAFKAS_HANDLER)

    def _extensions(self, alias: str, who: Tree) -> None:
        for name, given in who.keys.get("saslExtensions", {}).items():
            self.add(login_option(alias, OAUTH, f"extension_{name}"), given)

    def _option(self, alias: str, module: str, name: str, secret: Given, key: Given) -> None:
        found = self.secrets.reference(secret, key)
        if found is not None:
            self.add(login_option(alias, module, name), key, found)

    def _custom(self, alias: str, who: Tree) -> bool:
        for name, given in who.keys.get("config", {}).items():
            if name.startswith(_CUSTOM):
                self.add(f"{alias}.{name}", self.references.plain(given))
            else:
                self.ignored.append(given.path)
        sasl = who.texts.get("sasl")
        return sasl is not None and sasl.text == "true"
