"""A broker with one listener for each way to secure one, and an ACL authorizer behind them all.

| listener | protocol | what it wants |
|---|---|---|
| CLIENT | PLAINTEXT | nothing; its user, ANONYMOUS, may do everything |
| TLS | SSL | nothing |
| MTLS | SSL | a client certificate of `authority` |
| SASL | SASL_PLAINTEXT | PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER |
| SASLTLS | SASL_SSL | the same |
| SHORT | SASL_PLAINTEXT | PLAIN, again after `SHORT_SESSION_MS` |

Users: `ADMIN` may do everything, `NOBODY` nothing; the password of both is `PASSWORD`.
"""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism
from confluent_kafka.admin import UserScramCredentialUpsertion as Upsertion

from causeway.dev.broker import Broker
from causeway.dev.cluster import LocalCluster
from tests.harness.certificates import Authority

ADMIN, NOBODY = "admin", "nobody"
ODD_USER = "odd,user=1"  # SCRAM must escape it
PASSWORD = 'pa$$,w=ör"d'
SHORT_SESSION_MS = 3_000

_LISTENERS = {
    "CLIENT": "PLAINTEXT",
    "INTERNAL": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
_MODULES = "org.apache.kafka.common.security"


class SecuredCluster(LocalCluster):
    """One broker. Its certificate is for localhost, not for 127.0.0.1."""

    host = "127.0.0.1"

    def __init__(self, name: str, authority: Authority) -> None:
        super().__init__(name)
        self._extra = {n: self._ports.take() for n in ("TLS", "MTLS", "SASL", "SASLTLS", "SHORT")}
        self._authority = authority
        self._identity = authority.issue("broker", "localhost")

    def port(self, listener: str) -> int:
        return self._extra.get(listener) or self.brokers[1].ports.client

    def start(self, timeout_s: float = 90.0) -> None:
        super().start(timeout_s)
        users = [
            Upsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for user in (ADMIN, NOBODY, ODD_USER)
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        # One credential a user and request.
        for upsertion in users:
            for answer in admin.alter_user_scram_credentials([upsertion]).values():
                answer.result(30)

    def _broker_properties(self, broker: Broker) -> dict[str, str]:
        base = super()._broker_properties(broker)
        extra = ",".join(f"{name}://{self.host}:{port}" for name, port in self._extra.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self._extra.items())
        properties = {
            **base,
            "listeners": f"{base['listeners']},{extra}",
            "advertised.listeners": f"{base['advertised.listeners']},{advertised}",
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in _LISTENERS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": _one_line(self._identity.key),
            "ssl.keystore.certificate.chain": _one_line(self._identity.certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _one_line(self._authority.pem),
            "listener.name.mtls.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{ADMIN};User:{ODD_USER};User:CN=client",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.short.plain.connections.max.reauth.ms": str(SHORT_SESSION_MS),
        }
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        plain = f"{_MODULES}.plain.PlainLoginModule required " + " ".join(
            f'user_{user}="{quoted}"' for user in (ADMIN, NOBODY)
        )
        scram = f"{_MODULES}.scram.ScramLoginModule required"
        oauth = (
            f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker"'
        )
        for name in ("sasl", "sasltls", "short"):
            for mechanism, module in (
                ("plain", plain),
                ("scram-sha-256", scram),
                ("scram-sha-512", scram),
                ("oauthbearer", oauth),
            ):
                key = f"listener.name.{name}.{mechanism}.sasl.jaas.config"
                properties[key] = _property_text(module + ";")
        return properties


def _property_text(text: str) -> str:
    """As a Java property file spells it: ASCII, with backslashes doubled."""
    escaped = text.replace("\\", "\\\\")
    return "".join(c if c < "\x7f" else f"\\u{ord(c):04x}" for c in escaped)


def _one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")
