"""Reads how clients reach a cluster: addresses, TLS, authentication and config.

A cluster's `config` comes last and wins, as with Strimzi.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from causeway.config import CLUSTER_ID, Problems
from causeway.formats.causeway_yaml.document import YamlEntry
from causeway.formats.logins import OAUTH, PLAIN, SCRAM, login_option
from causeway.formats.strimzi import shape
from causeway.formats.strimzi.secrets import References, Secrets, is_provider
from causeway.formats.strimzi.shape import Tree

_MECHANISMS = {
    "plain": ("PLAIN", PLAIN),
    "scram-sha-256": ("SCRAM-SHA-256", SCRAM),
    "scram-sha-512": ("SCRAM-SHA-512", SCRAM),
}
# Strimzi passes on only these keys of `custom`.
_CUSTOM = ("sasl.", "ssl.keystore.")
# Options of the login module by fields: Kafka's client options, and those of Strimzi's handler.
_OAUTH_OPTIONS = {
    "clientId": "clientId",
    "clientSecret": "clientSecret",
    "refreshToken": "oauth.refresh.token",
    "clientAssertion": "oauth.client.assertion",
    "clientAssertionLocation": "oauth.client.assertion.location",
    "audience": "oauth.audience",
    "clientAssertionType": "oauth.client.assertion.type",
    "username": "oauth.password.grant.username",
    "passwordSecret": "oauth.password.grant.password",
    "grantType": "oauth.client.credentials.grant.type",
    "scope": "scope",
}
_GIVEN = {
    "accessToken": "oauth.access.token",
    "accessTokenLocation": "oauth.access.token.location",
}
_PROOFS = {
    "clientSecret",
    "passwordSecret",
    "refreshToken",
    "clientAssertion",
    "clientAssertionLocation",
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
    whole: dict[str, YamlEntry] = field(default_factory=dict)

    def add(self, key: str, given: YamlEntry, value: str | None = None) -> None:
        """Sets a key. A later value of a key wins."""
        self.entries[key] = replace(given, key=key, value=given.value if value is None else value)

    def cluster(self, tree: Tree, *, target: bool) -> None:
        alias = tree.texts["alias"].value
        self.add(f"{alias}.bootstrap.servers", tree.texts["bootstrapServers"])
        tls, who = tree.trees.get("tls"), tree.trees.get("authentication")
        # An empty list means the system's certificates.
        if tls is not None and (found := self._pems(tls.items.get("trustedCertificates", ()))):
            self.add(f"{alias}.ssl.truststore.certificates", tls.given, found)
            self.add(f"{alias}.ssl.truststore.type", tls.given, "PEM")
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

    def _pems(self, items: Iterable[Tree]) -> str:
        return "\n".join(text for each in items for text in self._pem(each))

    def _pem(self, tree: Tree) -> Iterator[str]:
        name, certificate = tree.texts.get("secretName"), tree.texts.get("certificate")
        pattern = tree.texts.get("pattern")
        if (certificate is None) is (pattern is None):
            self.problems.add(f"{tree.place} must have either certificate or pattern")
        elif name is not None and pattern is not None:
            yield from self.secrets.matching(name, pattern)
        elif name is not None and certificate is not None:
            found = self.secrets.reference(name, certificate)
            if found is not None:
                yield found

    # -- authentication

    def _who(self, alias: str, who: Tree, tls: Tree | None) -> bool:
        """Reads the authentication. Returns whether it is SASL."""
        match who.texts["type"].value:
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
                f"{who.place} needs tls as well: without TLS no data is encrypted and no"
                " certificate is sent"
            )
        if pair is None:
            self.problems.add(f"{who.place} has no certificateAndKey")
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
                self.problems.add(f"{who.place} has no {name}")
        self.add(f"{alias}.sasl.mechanism", who.texts["type"], mechanism)
        if user is not None and word is not None:
            self.add(login_option(alias, module, "username"), user)
            self._secret(login_option(alias, module, "password"), word)

    def _oauth(self, alias: str, who: Tree) -> None:
        """Reads client credentials as with Kafka's own handler, and the other grants of Strimzi."""
        if self.version != shape.OLD:
            self.problems.add(
                f"{who.texts['type'].place} is of {shape.OLD}: write type: custom with sasl: true,"
                " and sasl.mechanism: OAUTHBEARER and its keys under config"
            )
            return
        unchecked = who.texts.get("disableTlsHostnameVerification")
        if unchecked is not None and unchecked.value == "true":
            self.problems.add(f"{unchecked.place} is not supported: the host is always verified")
        named, options = who.trees.keys() | who.texts.keys(), _GIVEN
        if not _GIVEN.keys() & named:
            options = _OAUTH_OPTIONS
            needs = [name for name in ("clientId", "tokenEndpointUri") if name not in who.texts]
            if not _PROOFS & named:
                needs.append("clientSecret")
            for name in needs:
                self.problems.add(f"{who.place} has no {name}")
            if needs:
                return
            self.add(f"{alias}.sasl.oauthbearer.token.endpoint.url", who.texts["tokenEndpointUri"])
            if trusted := self._pems(who.items.get("tlsTrustedCertificates", ())):
                store = login_option(alias, OAUTH, "oauth.ssl.truststore")
                self.add(f"{store}.certificates", who.given, trusted)
                self.add(f"{store}.type", who.given, "PEM")
        self.add(f"{alias}.sasl.mechanism", who.texts["type"], "OAUTHBEARER")
        handler = f"{alias}.sasl.login.callback.handler.class"
        self.add(handler, who.texts["type"], _KAFKAS_HANDLER)
        for name, option in options.items():
            if name in who.texts:
                self.add(login_option(alias, OAUTH, option), who.texts[name])
            elif name in who.trees:
                self._secret(login_option(alias, OAUTH, option), who.trees[name])
        for name, given in who.keys.get("saslExtensions", {}).items():
            self.add(login_option(alias, OAUTH, f"extension_{name}"), given)

    def _secret(self, key: str, tree: Tree) -> None:
        part = tree.texts.get("key") or tree.texts["password"]
        found = self.secrets.reference(tree.texts["secretName"], part)
        if found is not None:
            self.add(key, part, found)

    def _custom(self, alias: str, who: Tree) -> bool:
        for name, given in who.keys.get("config", {}).items():
            if name.startswith(_CUSTOM):
                self.add(f"{alias}.{name}", self.references.plain(given))
            else:
                self.ignored.append(given.path)
        sasl = who.texts.get("sasl")
        return sasl is not None and sasl.value == "true"
