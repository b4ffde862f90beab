from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway.config import ClientSettings, Entry, Problems, Secret, from_wire, to_wire
from causeway.config.reading import client_settings
from causeway.config.reading.client_reader import parse_address
from tests.harness.pems import make_pem

SECURITY = "org.apache.kafka.common.security."
PLAIN = f'{SECURITY}plain.PlainLoginModule required username="ann" password="hunter2";'
SCRAM = f'{SECURITY}scram.ScramLoginModule required username="ann" password="hunter2";'
OAUTH = f"{SECURITY}oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"


def read(**keys: str) -> tuple[ClientSettings | None, list[str]]:
    entries = {
        name.replace("_", "."): Entry(key="A." + name.replace("_", "."), value=value, line=7)
        for name, value in {"bootstrap_servers": "h:1", **keys}.items()
    }
    problems = Problems("x")
    return client_settings("A", entries, problems), problems.lines


def good(**keys: str) -> ClientSettings:
    settings, problems = read(**keys)
    assert problems == []
    assert settings is not None
    return settings


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1", ("h", 1)),
        ("kafka-1.example.com:9092", ("kafka-1.example.com", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("PLAINTEXT://h:1", ("h", 1)),
        ("SASL_SSL://h:1", ("h", 1)),
        ("h", None),
        ("h:", None),
        (":1", None),
        ("h:0", None),
        ("h:65536", None),
        ("::1:9092", None),
        ("a b:1", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


def test_several_addresses_once_each() -> None:
    assert good(bootstrap_servers=" a:1, b:2 ,a:1,").bootstrap == (("a", 1), ("b", 2))


def test_plain() -> None:
    settings = good(
        security_protocol="sasl_plaintext", sasl_mechanism="plain", sasl_jaas_config=PLAIN
    )
    assert settings.protocol == "SASL_PLAINTEXT"
    assert settings.tls is None
    assert settings.sasl is not None
    assert (settings.sasl.mechanism, settings.sasl.username) == ("PLAIN", "ann")
    assert settings.sasl.password == Secret("hunter2")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(mechanism: str) -> None:
    settings = good(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=SCRAM)
    assert settings.sasl is not None
    assert settings.sasl.mechanism == mechanism
    assert settings.tls is not None
    assert settings.tls.verify_hostname


@pytest.mark.parametrize(
    "keys",
    [
        {
            "sasl_jaas_config": f'{OAUTH} clientId="me" clientSecret="hunter2" scope="s"'
            ' extension_logicalCluster="lkc";'
        },
        {
            "sasl_oauthbearer_client_credentials_client_id": "me",
            "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
            "sasl_oauthbearer_scope": "s",
            "sasl_jaas_config": f'{OAUTH} extension_logicalCluster="lkc";',
        },
    ],
)
def test_oauth(keys: dict[str, str]) -> None:
    keys = {"sasl_oauthbearer_token_endpoint_url": "https://idp/token", **keys}
    settings = good(security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", **keys)
    assert settings.sasl is not None
    oauth = settings.sasl.oauth
    assert oauth is not None
    assert (oauth.token_endpoint, oauth.client_id, oauth.scope) == ("https://idp/token", "me", "s")
    assert oauth.client_secret == Secret("hunter2")
    assert oauth.extensions == {"logicalCluster": "lkc"}


def test_oauth_needs_no_login_module_where_its_keys_say_all() -> None:
    settings = good(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://idp/token",
        sasl_oauthbearer_client_credentials_client_id="me",
        sasl_oauthbearer_client_credentials_client_secret="hunter2",
    )
    assert settings.sasl is not None


@pytest.mark.parametrize(
    ("options", "grant", "fields"),
    [
        ('oauth.refresh.token="r"', "refresh_token", {"refresh_token": "r"}),
        (
            'oauth.password.grant.username="u" oauth.password.grant.password="p"',
            "password",
            {"username": "u", "password": "p"},
        ),
        (
            'oauth.client.assertion="jwt" oauth.audience="kafka"',
            "client_credentials",
            {
                "client_assertion": "jwt",
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                "audience": "kafka",
            },
        ),
    ],
)
def test_strimzis_other_grants(options: str, grant: str, fields: dict[str, str]) -> None:
    settings = good(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=(
            f'{OAUTH} oauth.client.id="me" oauth.token.endpoint.uri="https://i/t" {options};'
        ),
    )
    assert settings.sasl is not None
    oauth = settings.sasl.oauth
    assert oauth is not None
    assert oauth.grant == grant
    assert {name: value.reveal() for name, value in oauth.fields.items()} == fields
    assert from_wire(to_wire(settings)) == settings


def test_a_delegation_token() -> None:
    module = SCRAM.replace(";", " tokenauth=true;")
    settings = good(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=module
    )
    assert settings.sasl is not None
    assert settings.sasl.is_delegation_token
    assert from_wire(to_wire(settings)) == settings


def test_options_of_a_login_module_are_not_dropped_without_a_word() -> None:
    _, problems = read(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://idp/token",
        sasl_jaas_config=f'{OAUTH} clientId="me" clientSecret="s" oauth.token.in.url="hunter2";',
    )
    assert "not supported: oauth.token.in.url" in str(problems)
    assert "hunter2" not in str(problems)


def test_what_is_trusted_of_the_token_endpoint(tmp_path: Path) -> None:
    """By the options of Kafka's handler, or of Strimzi's."""
    _, certificate = make_pem()
    (tmp_path / "idp.pem").write_text(certificate)
    (tmp_path / "none.pem").write_text("")
    for start in ("", "oauth."):
        for option, told in {
            f'certificates="{certificate}"': None,
            f'location="{tmp_path}/idp.pem" {start}ssl.truststore.type=PEM': None,
            f'location="{tmp_path}/none.pem" {start}ssl.truststore.type=PEM': "no PEM text",
            f'location="{tmp_path}/idp.pem" {start}ssl.truststore.type=DER': "one of JKS",
            'certificates="none"': "no certificate",
        }.items():
            settings, problems = read(
                security_protocol="SASL_SSL",
                sasl_mechanism="OAUTHBEARER",
                sasl_oauthbearer_token_endpoint_url="https://idp/token",
                sasl_jaas_config=f'{OAUTH} clientId="me" clientSecret="s"'
                f" {start}ssl.truststore.{option};",
            )
            if told is None:
                assert settings is not None
                assert settings.sasl is not None
                assert settings.sasl.oauth is not None
                assert (settings.sasl.oauth.ca_pem or "").strip() == certificate.strip()
            else:
                assert told in str(problems)


def test_a_given_token_needs_no_endpoint() -> None:
    settings, problems = read(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=f'{OAUTH} oauth.access.token="hunter2" extension_tenant="x";',
    )
    assert not problems
    assert settings is not None
    assert settings.sasl is not None
    assert settings.sasl.oauth is not None
    assert settings.sasl.oauth.access_token == Secret("hunter2")
    assert settings.sasl.oauth.extensions == {"tenant": "x"}
    assert "hunter2" not in repr(settings)
    assert from_wire(to_wire(settings)) == settings


def test_strimzis_names_of_the_oauth_options() -> None:
    options = (
        'oauth.client.id="me" oauth.client.secret="hunter2" oauth.token.endpoint.uri="https://i/t"'
    )
    settings = good(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=f"{OAUTH} {options};",
    )
    assert settings.sasl is not None
    assert settings.sasl.oauth is not None
    assert settings.sasl.oauth.client_id == "me"


def test_host_names_are_not_checked_where_the_file_says_so() -> None:
    tls = good(security_protocol="SSL", ssl_endpoint_identification_algorithm="").tls
    assert tls is not None
    assert not tls.verify_hostname


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"security_protocol": "TLS"}, r"A.security.protocol \(line 7\) must be one of PLAINTEXT"),
        ({"sasl_mechanism": "GSSAPI"}, "has no sasl.jaas.config: GSSAPI needs a login module"),
        ({"sasl_mechanism": "OTHER"}, "OTHER is not supported, only PLAIN"),
        ({}, r"GSSAPI \(Kafka's default of sasl.mechanism\) needs a login module"),
        ({"sasl_jaas_config": PLAIN}, "GSSAPI needs Krb5LoginModule, not PlainLoginModule"),
        ({"sasl_mechanism": "PLAIN"}, "has no sasl.jaas.config: PLAIN needs a login module"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM},
            "PLAIN needs PlainLoginModule, not ScramLoginModule",
        ),
        (
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": PLAIN},
            "SCRAM-SHA-256 needs ScramLoginModule",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.replace("password", "pass")},
            "the login module has no password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN.strip(";")},
            r"A.sasl.jaas.config \(line 7\): .*must end with",
        ),
        (
            {
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_jaas_config": SCRAM,
                "sasl_login_callback_handler_class": "com.example.Handler",
            },
            r"A.sasl.login.callback.handler.class \(line 7\): com.example.Handler is not supported",
        ),
        ({"sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": f"{OAUTH};"}, "an http\\(s\\) URL"),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_jaas_config": f"{OAUTH};",
                "sasl_oauthbearer_token_endpoint_url": "https://idp/token",
            },
            "needs sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_jaas_config": f'{OAUTH} unsecuredLoginStringClaim_sub="ann";',
            },
            "unsecured tokens",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_type": "BKS"}, "must be one of JKS, PKCS12"),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "/no/such"},
            r"A.ssl.truststore.location \(line 7\): read /no/such: there is no such file",
        ),
        (
            {"security_protocol": "SSL", "ssl_keystore_location": "/no/such"},
            r"A.ssl.keystore.location \(line 7\): read /no/such",
        ),
        (
            {"security_protocol": "SSL", "ssl_truststore_certificates": "x"},
            "set ssl.truststore.type=PEM",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_keystore_type": "PEM",
                "ssl_keystore_key": "hunter2",
            },
            "go together",
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "ldaps"},
            "must be https or empty, not 'ldaps'",
        ),
        ({"security_protocol": "PLAINTEXT", "request_timeout_ms": "soon"}, "a whole number"),
    ],
)
def test_refusals(keys: dict[str, str], message: str) -> None:
    settings, problems = read(**{"security_protocol": "SASL_SSL", **keys})
    assert settings is None
    text = "\n".join(problems)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(text)
    assert "hunter2" not in text


def every_client() -> Iterator[ClientSettings]:
    yield good()
    yield good(security_protocol="SSL", client_id="me", request_timeout_ms="5")
    yield good(receive_buffer_bytes="65536", send_buffer_bytes="7")
    yield good(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    yield good(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="http://idp/token",
        sasl_jaas_config=f'{OAUTH} clientId="me" clientSecret="hunter2" extension_a="b";',
    )


def test_settings_go_to_a_lane_and_come_out_equal() -> None:
    for settings in every_client():
        assert from_wire(json.loads(json.dumps(to_wire(settings)))) == settings


def test_secrets_never_show() -> None:
    for settings in every_client():
        assert "hunter2" not in repr(settings)
        assert "hunter2" not in f"{settings}"


def test_a_mutual_tls_client() -> None:
    key, cert = make_pem()
    settings = good(
        security_protocol="SSL",
        ssl_keystore_type="PEM",
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=cert,
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=cert,
    )
    assert settings.tls is not None
    assert settings.tls.ca_pem == settings.tls.cert_pem == cert
    assert "PRIVATE" not in repr(settings)
    assert from_wire(to_wire(settings)) == settings


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("TLSv1.2", ("TLSv1.2",)),
        (" TLSv1.3 ", ("TLSv1.3",)),
        ("TLSv1.3,TLSv1.2", ("TLSv1.2", "TLSv1.3")),
        ("TLSv1.1, TLSv1.2", ("TLSv1.2",)),
        ("", ("TLSv1.2", "TLSv1.3")),
    ],
)
def test_tls_versions(text: str, versions: tuple[str, ...]) -> None:
    tls = good(security_protocol="SSL", ssl_enabled_protocols=text).tls
    assert tls is not None
    assert tls.versions == versions


@pytest.mark.parametrize("text", ["TLSv1", "TLSv1.1", "TLS1.3", "TLSv1.2, TLSv1.4"])
def test_tls_versions_that_cannot_be_had(text: str) -> None:
    (line,) = read(security_protocol="SSL", ssl_enabled_protocols=text)[1]
    assert "must name TLSv1.2 or TLSv1.3" in line
