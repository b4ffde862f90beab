"""How a client proves who it is: certificates, and one class of settings for each kind of login.

The settings hold all that a login needs, because lanes on other machines have no file of the
driver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from causeway.config.values import FrozenMap, Secret, freeze

SaslMechanism = Literal[
    "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """`ca_pem`: trusted certificates, or None for the system's. `cert_pem` (chain) and `key_pem`
    (unencrypted PKCS8 or PKCS1): for mutual TLS. `verify_hostname` is false if
    `ssl.endpoint.identification.algorithm` is empty. `versions`: TLSv1.2, TLSv1.3 or both."""

    ca_pem: str | None = None
    cert_pem: str | None = None
    key_pem: Secret | None = None
    verify_hostname: bool = True
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionSettings:
    """A signed statement (RFC 7523) that the client makes for each request, as Kafka's clients do.
    `sent_as`: the field of the request that has it: `assertion` is the grant itself, and
    `client_assertion` proves who the client is. `key_pem`: the private key, unencrypted. `header`
    and `claims`: JSON objects as text. It holds from `not_before_s` seconds before the request
    until `lifetime_s` seconds after it. `has_id`: each has an id of its own (`jti`)."""

    sent_as: Literal["assertion", "client_assertion"]
    key_pem: Secret
    algorithm: Literal["RS256", "ES256"] = "RS256"
    header: str = field(default="{}", repr=False)
    claims: str = field(default="{}", repr=False)
    lifetime_s: int = 300
    not_before_s: int = 60
    has_id: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """A grant of RFC 6749 or RFC 7523 at `token_endpoint`; `fields`: more fields of the request,
    such as a refresh token. With an empty secret the client sends only its id, if it has one.
    `is_url_encoded`: the client's id and secret are encoded as RFC 6749, 2.3.1 has it. `ca_pem`:
    the trusted certificates of the endpoint; None: those of the system and of the cluster.

    `access_token`: a fixed token; then the other fields are empty and no endpoint is called.

    `files`: from `access_token`, or the name of one of `fields`, to the file that its value comes
    from. A process that has the files reads them again for each request. Lanes get no `files`: the
    driver sends them new settings when a file changes."""

    token_endpoint: str = ""
    client_id: str = ""
    client_secret: Secret = Secret("")
    grant: str = "client_credentials"
    fields: Mapping[str, Secret] = field(default_factory=FrozenMap, repr=False)
    assertion: AssertionSettings | None = None
    scope: str | None = None
    extensions: Mapping[str, str] = field(default_factory=FrozenMap, repr=False)
    is_url_encoded: bool = False
    ca_pem: str | None = field(default=None, repr=False)
    access_token: Secret = Secret("")
    files: Mapping[str, str] = field(default_factory=FrozenMap, repr=False)

    def __post_init__(self) -> None:
        freeze(self, "fields", "extensions", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleSettings:
    """A login to Google's Managed Service for Apache Kafka by Google's credentials. `credentials`:
    the JSON text of a credentials file, such as a service account's key. Empty: the metadata server
    of the machine that logs in."""

    credentials: Secret = Secret("")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSettings:
    """The sources of an IAM login's credentials, by the options of Amazon's login library for MSK
    and with its defaults. Credentials are sought in `profile`, then by assuming `role_arn`, then,
    with `default_sources`, in all places in which AWS's tools look, on the machine that opens the
    connection. A role is assumed with `access_key_id` and its secret, or else with the credentials
    of the default sources. `sts_region`: the region of the STS; aws-global: the global one."""

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "aws-msk-iam-auth"
    role_external_id: str | None = None
    sts_region: str = "aws-global"
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    default_sources: bool = True
    fips: bool = False
    max_retries: int = 3
    max_backoff_ms: int = 5000
    tells_identity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketRenewal:
    """How a process renews the ticket of its ticket cache, the file `path`: by `command` -R, once
    the share `window` of the ticket's life is over, or later by a random share of up to `jitter`,
    but not after 95 % of the life. Two attempts are at least `least_ms` and 5 s apart, or 5 s if
    the ticket expires sooner."""

    path: str
    command: str = "/usr/bin/kinit"
    window: float = 0.8
    jitter: float = 0.05
    least_ms: int = 60_000


# By the fields of TicketRenewal.
RENEWAL_KEYS: Mapping[str, str] = {
    "command": "sasl.kerberos.kinit.cmd",
    "window": "sasl.kerberos.ticket.renew.window.factor",
    "jitter": "sasl.kerberos.ticket.renew.jitter",
    "least_ms": "sasl.kerberos.min.time.before.relogin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosSettings:
    """The login of `principal`, with or without its realm; None: that of the ticket cache. Either
    `keytab` or `ticket_cache` is set, to the content of the file in base64. `service`: the first
    part of the brokers' principals. `krb5_conf`: the text of krb5.conf. `renewal`: of the ticket
    cache; lanes get none, because the driver sends them new settings when the file changes."""

    service: str
    principal: str | None = None
    keytab: Secret = Secret("")
    ticket_cache: Secret = Secret("")
    krb5_conf: str = field(default="", repr=False)
    renewal: TicketRenewal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """`is_delegation_token`: name and password are a delegation token's id and HMAC (SCRAM).
    `aws`: of AWS_MSK_IAM, and of OAUTHBEARER with tokens for MSK."""

    mechanism: SaslMechanism
    username: str = ""
    password: Secret = Secret("")
    is_delegation_token: bool = False
    oauth: OAuthSettings | None = None
    aws: AwsSettings | None = None
    google: GoogleSettings | None = None
    kerberos: KerberosSettings | None = None
