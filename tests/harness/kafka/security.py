"""What a cluster's CLIENT listener asks of its users, and what they must say to get in.

One listener may offer every SASL mechanism at once, so that few brokers serve many tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from causeway.dev import KafkaVersion
from causeway.errors import ConfigError
from tests.harness.kafka.certificates import Certificates
from tests.harness.kafka.kdc import Kdc
from tests.harness.kafka.token_server import AUDIENCE, ISSUER, TokenServer

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
_LISTENER = "listener.name.client."


@dataclass(frozen=True, kw_only=True)
class Security:
    """`users` maps names to passwords, for PLAIN and SCRAM; OAUTHBEARER takes its users from
    `tokens`, GSSAPI from `kdc`, in which the brokers are `kafka/localhost`. `acl` denies whatever
    no ACL allows to all but `super_users` (and the brokers themselves, who are ANONYMOUS on their
    own listener). `mutual` asks clients for certificates."""

    protocol: Protocol = "PLAINTEXT"
    mechanisms: tuple[Mechanism, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificates: Certificates | None = None
    mutual: bool = False
    tokens: TokenServer | None = None
    kdc: Kdc | None = None
    acl: bool = False
    super_users: tuple[str, ...] = ("admin",)

    def __post_init__(self) -> None:
        problem = ""
        if self._tls != (self.certificates is not None):
            problem = "certificates go with SSL and SASL_SSL, and only with them"
        elif self._sasl != bool(self.mechanisms):
            problem = "mechanisms go with SASL_PLAINTEXT and SASL_SSL, and only with them"
        elif ("OAUTHBEARER" in self.mechanisms) != (self.tokens is not None):
            problem = "tokens go with OAUTHBEARER, and only with it"
        elif ("GSSAPI" in self.mechanisms) != (self.kdc is not None):
            problem = "a KDC goes with GSSAPI, and only with it"
        elif self.acl and not self._sasl and not self.mutual:
            problem = "ACLs need users who say who they are: SASL or mutual TLS"
        if problem:
            raise ConfigError("set up", f"a {self.protocol} cluster", problem)

    @property
    def host(self) -> str:
        """What brokers advertise: a name if certificates or tickets are checked against it."""
        return "localhost" if self._tls or self.kdc else "127.0.0.1"

    def broker_properties(self, version: KafkaVersion) -> dict[str, str]:
        lines: dict[str, str] = {}
        if self.certificates is not None:
            lines |= {
                f"{_LISTENER}ssl.keystore.type": "PEM",
                f"{_LISTENER}ssl.keystore.location": str(self.certificates.broker),
                f"{_LISTENER}ssl.truststore.type": "PEM",
                f"{_LISTENER}ssl.truststore.location": str(self.certificates.ca),
                f"{_LISTENER}ssl.client.auth": "required" if self.mutual else "none",
            }
        if self.mechanisms:
            lines[f"{_LISTENER}sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        for mechanism in self.mechanisms:
            lines |= self._mechanism_properties(mechanism)
        if self.acl:
            names = ("ANONYMOUS", *self.super_users)
            lines |= {
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"
                if version.zookeeper
                else "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join(f"User:{name}" for name in names),
            }
        return lines

    def format_options(self, version: KafkaVersion) -> list[str]:
        """SCRAM users, whom the metadata log holds. (Kafka's tool takes them as arguments only;
        the passwords of a throw-away cluster are no secret.) Raises
        ConfigError before Kafka 3.5, whose tool takes none."""
        options = [
            word
            for mechanism in self.mechanisms
            if mechanism.startswith("SCRAM")
            for name, password in self.users.items()
            for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
        ]
        if options and (version.major, version.minor) < (3, 5):
            cause = "its brokers cannot be given users before they start"
            raise ConfigError("set up", f"SCRAM with Kafka {version}", cause)
        return options

    def jvm_options(self) -> list[str]:
        options = []
        if self.tokens is not None:
            allowed = self.tokens.keys_url
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        if self.kdc is not None:
            options.append(f"-Djava.security.krb5.conf={self.kdc.krb5_conf}")
        return options

    def java_client(
        self, user: str = "", mechanism: Mechanism | None = None, *, stores: str = "PEM"
    ) -> dict[str, str]:
        """The properties with which a Java client (or Causeway) gets in as `user`; for
        OAUTHBEARER that is the token server's client id. `stores`: PEM, JKS or PKCS12."""
        lines: dict[str, str] = {"security.protocol": self.protocol}
        if self.certificates is not None:
            lines |= self._store_properties(self.certificates, stores)
        if self._sasl:
            chosen = mechanism or self.mechanisms[0]
            lines |= {
                "sasl.mechanism": chosen,
                "sasl.jaas.config": self._jaas(chosen, user),
            }
            if chosen == "GSSAPI":
                lines["sasl.kerberos.service.name"] = "kafka"
            if chosen == "OAUTHBEARER" and self.tokens is not None:
                lines["sasl.oauthbearer.token.endpoint.url"] = self.tokens.token_url
                lines["sasl.login.callback.handler.class"] = (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
                )
        return lines

    def librdkafka(self, user: str = "", mechanism: Mechanism | None = None) -> dict[str, str]:
        """The same for librdkafka."""
        settings: dict[str, str] = {"security.protocol": self.protocol}
        if self.certificates is not None:
            settings["ssl.ca.location"] = str(self.certificates.ca)
            if self.mutual:
                settings["ssl.certificate.location"] = str(self.certificates.client_certificate)
                settings["ssl.key.location"] = str(self.certificates.client_key)
        if not self._sasl:
            return settings
        chosen = mechanism or self.mechanisms[0]
        settings["sasl.mechanisms"] = chosen
        if chosen == "OAUTHBEARER" and self.tokens is not None:
            return settings | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": self.tokens.clients.get(user, ""),
                "sasl.oauthbearer.token.endpoint.url": self.tokens.token_url,
            }
        return settings | {
            "sasl.username": user,
            "sasl.password": self.users.get(user, ""),
        }

    @property
    def _tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def _sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def _mechanism_properties(self, mechanism: Mechanism) -> dict[str, str]:
        prefix = f"{_LISTENER}{mechanism.lower()}."
        module = _LOGIN_MODULES[mechanism]
        options = ""
        if mechanism == "PLAIN":
            options = "".join(f' user_{name}="{word}"' for name, word in self.users.items())
        elif mechanism == "GSSAPI" and self.kdc is not None:
            options = f" {self.kdc.keytab_options('kafka/localhost')}"
        lines = {f"{prefix}sasl.jaas.config": f"{module} required{options};"}
        if mechanism == "GSSAPI":
            lines[f"{_LISTENER}sasl.kerberos.service.name"] = "kafka"
        if mechanism == "OAUTHBEARER" and self.tokens is not None:
            handler = "OAuthBearerValidatorCallbackHandler"
            lines |= {
                f"{prefix}sasl.server.callback.handler.class": "org.apache.kafka.common.security."
                f"oauthbearer.{handler}",
                f"{_LISTENER}sasl.oauthbearer.jwks.endpoint.url": self.tokens.keys_url,
                f"{_LISTENER}sasl.oauthbearer.expected.audience": AUDIENCE,
                f"{_LISTENER}sasl.oauthbearer.expected.issuer": ISSUER,
            }
        return lines

    def _jaas(self, mechanism: Mechanism, user: str) -> str:
        module = _LOGIN_MODULES[mechanism]
        if mechanism == "OAUTHBEARER":
            secret = self.tokens.clients.get(user, "") if self.tokens else ""
            return f'{module} required clientId="{user}" clientSecret="{secret}";'
        if self.kdc is not None and mechanism == "GSSAPI":
            return f"{module} required {self.kdc.keytab_options(user)};"
        password = self.users.get(user, "")
        return f'{module} required username="{user}" password="{password}";'

    def _store_properties(self, files: Certificates, kind: str) -> dict[str, str]:
        lines = {"ssl.truststore.type": kind}
        if kind == "PEM":
            lines["ssl.truststore.location"] = str(files.ca)
        else:
            lines["ssl.truststore.location"] = str(files.truststore(kind))
            lines["ssl.truststore.password"] = files.password
        if not self.mutual:
            return lines
        lines["ssl.keystore.type"] = kind
        if kind == "PEM":
            lines["ssl.keystore.location"] = str(files.client)
        else:
            lines["ssl.keystore.location"] = str(files.keystore(kind))
            lines["ssl.keystore.password"] = files.password
            lines["ssl.key.password"] = files.password
        return lines


PLAINTEXT = Security()
