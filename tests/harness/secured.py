"""A broker with one listener for each way to secure one, and an ACL authorizer behind them all.

| listener | protocol | what it wants |
|---|---|---|
| CLIENT | PLAINTEXT | nothing; its user, ANONYMOUS, may do everything |
| TLS | SSL | nothing |
| MTLS | SSL | a client certificate of the same authority |
| SASL | SASL_PLAINTEXT | PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER |
| SASLTLS | SASL_SSL | the same |
| SHORT | SASL_PLAINTEXT | PLAIN or OAUTHBEARER, again every `SHORT_SESSION_MS` |

The broker's certificate is for localhost alone. Users: `ADMIN` may do everything, `NOBODY`
nothing, `ODD_USER` (SCRAM only) everything; `PASSWORD` is everybody's, and the client secret.
Tokens that a key of `signers` has signed are as good as those of the token server. SCRAM also takes
delegation tokens.
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from causeway.dev import Broker
from tests.harness.kafka.certificates import Certificates, create_certificates
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.token_server import AUDIENCE, ISSUER, TokenServer

ADMIN, NOBODY, ODD_USER = "admin", "nobody", "odd,user=1"
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
_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class SecuredCluster(LocalCluster):
    """`tokens` runs, and its clients are the users; start and destroy as any LocalCluster."""

    def __init__(self, name: str, certificates: Path) -> None:
        self.certificates: Certificates = create_certificates(
            certificates, hostnames=("localhost",)
        )
        self.tokens = TokenServer({ADMIN: PASSWORD, NOBODY: PASSWORD})
        self.signers: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = {
            "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
        }
        self.tokens.trusted = {name: key.public_key() for name, key in self.signers.items()}
        super().__init__(name)
        self._extra = {listener: self.ports.take() for listener in list(_LISTENERS)[3:]}
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.keys_url}"
        self.jvm_options += (allowed,)

    def port(self, listener: str) -> int:
        return self._extra.get(listener) or self.brokers[1].ports.client

    def start(self, timeout_s: float = 90.0) -> None:
        self.tokens.start()
        super().start(timeout_s)
        for user in (ADMIN, NOBODY, ODD_USER):
            self.set_password(user, PASSWORD)

    def set_password(self, user: str, password: str) -> None:
        """For SCRAM alone; sessions that are open stay."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for mechanism in _SCRAM:
            info = ScramCredentialInfo(mechanism, 4096)
            wanted = UserScramCredentialUpsertion(user, info, password.encode())
            for answer in admin.alter_user_scram_credentials([wanted]).values():
                answer.result(30)

    def destroy(self) -> None:
        super().destroy()
        self.tokens.stop()

    def broker_properties(self, broker: Broker) -> dict[str, str]:
        base = super().broker_properties(broker)
        extra = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._extra.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self._extra.items())
        properties = {
            **base,
            "listeners": f"{base['listeners']},{extra}",
            "advertised.listeners": f"{base['advertised.listeners']},{advertised}",
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in _LISTENERS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.ca),
            "listener.name.mtls.ssl.client.auth": "required",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(
                f"User:{user}" for user in ("ANONYMOUS", ADMIN, ODD_USER, "CN=client")
            ),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "delegation.token.secret.key": "a-secret-of-the-brokers",
            "listener.name.short.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
            "listener.name.short.plain.connections.max.reauth.ms": str(SHORT_SESSION_MS),
            "listener.name.short.oauthbearer.connections.max.reauth.ms": str(SHORT_SESSION_MS),
        }
        quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        users = " ".join(f'user_{user}="{quoted}"' for user in (ADMIN, NOBODY))
        for listener in ("sasl", "sasltls", "short"):
            start = f"listener.name.{listener}."
            properties |= {
                f"{start}plain.sasl.jaas.config": _property_text(
                    f"{_MODULES}.plain.PlainLoginModule required {users};"
                ),
                f"{start}scram-sha-256.sasl.jaas.config": (
                    f"{_MODULES}.scram.ScramLoginModule required;"
                ),
                f"{start}scram-sha-512.sasl.jaas.config": (
                    f"{_MODULES}.scram.ScramLoginModule required;"
                ),
                f"{start}oauthbearer.sasl.jaas.config": (
                    f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
                ),
                f"{start}oauthbearer.sasl.server.callback.handler.class": (
                    f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
                f"{start}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.tokens.keys_url,
                f"{start}oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
                f"{start}oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            }
        return properties


def _property_text(text: str) -> str:
    """As a Java property file spells it: ASCII, with backslashes doubled."""
    escaped = text.replace("\\", "\\\\")
    return "".join(c if c < "\x7f" else f"\\u{ord(c):04x}" for c in escaped)
