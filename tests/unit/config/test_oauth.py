"""How a client gets its access tokens, by the keys of Kafka's own clients and Strimzi's options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from causeway.config import ClientSettings, Entry, OAuthSettings, Problems, from_wire, to_wire
from causeway.config.reading import client_settings
from causeway.formats import convert, load

KAFKAS = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{KAFKAS}.OAuthBearerLoginModule required"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
HANDLER = "sasl.login.callback.handler.class"
ASSERTION = "sasl.oauthbearer.assertion"
SECRET = "hunter2"


def read(keys: dict[str, str], module: str = "") -> tuple[ClientSettings | None, str]:
    lines = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} {module};",
        **keys,
    }
    entries = {name: Entry(key=f"A.{name}", value=text, line=7) for name, text in lines.items()}
    problems = Problems("x")
    settings = client_settings("A", entries, problems)
    assert SECRET not in str(problems.lines)
    assert SECRET not in repr(settings)
    return settings, "\n".join(problems.lines)


def oauth(keys: dict[str, str], module: str = "") -> OAuthSettings:
    settings, problems = read(keys, module)
    assert problems == ""
    assert settings is not None
    assert settings.sasl is not None
    assert settings.sasl.oauth is not None
    return settings.sasl.oauth


def refusal(keys: dict[str, str], module: str = "") -> str:
    settings, problems = read(keys, module)
    assert settings is None
    return problems


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return write_key(tmp_path / "rsa.pem", rsa.generate_private_key(65537, 2048))


def write_key(
    path: Path, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: str = ""
) -> Path:
    lock = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    return path


def by_key(key_file: Path) -> dict[str, str]:
    return {
        ENDPOINT: "https://idp/token",
        f"{ASSERTION}.private.key.file": str(key_file),
        f"{ASSERTION}.claim.iss": "me",
    }


@pytest.mark.parametrize("retriever", ["", "DefaultJwtRetriever", "FileJwtRetriever"])
@pytest.mark.parametrize("start", ["file://", "file:", "file://localhost"])
def test_a_token_in_a_file(tmp_path: Path, retriever: str, start: str) -> None:
    file = tmp_path / "my token"
    file.write_text(f"{SECRET}\n")
    keys = {ENDPOINT: f"{start}{str(file).replace(' ', '%20')}"}
    if retriever:
        keys[RETRIEVER] = f"{KAFKAS}.{retriever}"
    found = oauth(keys, 'extension_logicalCluster="lkc"')
    assert found.access_token.reveal() == SECRET
    assert found.files == {"access_token": str(file)}
    assert found.extensions == {"logicalCluster": "lkc"}


def test_lanes_get_the_content_of_files_and_not_their_names(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    settings, _ = read({ENDPOINT: file.as_uri()})
    assert settings is not None
    wire = json.dumps(to_wire(settings))
    assert str(file) not in wire
    at_lane = from_wire(json.loads(wire))
    assert at_lane.sasl is not None
    assert at_lane.sasl.oauth is not None
    assert at_lane.sasl.oauth.access_token.reveal() == SECRET


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({ENDPOINT: "file:///no/such"}, f"A.{ENDPOINT} (line 7): read /no/such: there is no such"),
        ({ENDPOINT: "file://elsewhere/token"}, "is written file:///PATH"),
        ({ENDPOINT: "file:"}, "is written file:///PATH"),
        (
            {ENDPOINT: "file:///x", RETRIEVER: f"{KAFKAS}.JwtBearerJwtRetriever"},
            "JwtBearerJwtRetriever needs an http(s) URL",
        ),
        (
            {ENDPOINT: "https://idp/token", RETRIEVER: f"{KAFKAS}.FileJwtRetriever"},
            "FileJwtRetriever needs a file",
        ),
        ({RETRIEVER: "com.example.Own"}, "it knows DefaultJwtRetriever, ClientCredentials"),
        ({ENDPOINT: "ftp://idp/token"}, "an http(s) URL"),
        ({HANDLER: "com.example.Own"}, "com.example.Own is not supported: Causeway runs no Java"),
        (
            {HANDLER: "com.example.Own"},
            "GcpLoginCallbackHandler, IAMOAuthBearerLoginCallbackHandler,"
            " JaasClientOauthLoginCallbackHandler,"
            " OAuthBearerLoginCallbackHandler",
        ),
        (
            {ENDPOINT: "https://i/t", RETRIEVER: f"{KAFKAS}.JwtBearerJwtRetriever"},
            f"{ASSERTION}.private.key.file of cluster A: it is missing: set it, or",
        ),
        ({ENDPOINT: "https://i/t", f"{ASSERTION}.file": "/no/such"}, "there is no such file"),
    ],
)
def test_refusals(keys: dict[str, str], says: str) -> None:
    assert says in refusal(keys)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert "it is empty" in refusal({ENDPOINT: (tmp_path / "token").as_uri()})


@pytest.mark.parametrize(
    "handler",
    [
        f"{KAFKAS}.OAuthBearerLoginCallbackHandler",
        f"{KAFKAS}.secured.OAuthBearerLoginCallbackHandler",
        "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
    ],
)
def test_known_handlers(handler: str) -> None:
    keys = {HANDLER: handler, ENDPOINT: "https://idp/token"}
    assert oauth(keys, f'clientId="me" clientSecret="{SECRET}"').client_id == "me"


def test_a_grant_by_an_assertion(key_file: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "k1"}, "payload": {"sub": "other", "roles": ["a"]}}')
    found = oauth(
        {
            **by_key(key_file),
            RETRIEVER: f"{KAFKAS}.JwtBearerJwtRetriever",
            f"{ASSERTION}.claim.sub": "me",
            f"{ASSERTION}.claim.aud": "https://idp/token",
            f"{ASSERTION}.claim.exp.seconds": "600",
            f"{ASSERTION}.claim.nbf.seconds": "0",
            f"{ASSERTION}.claim.jti.include": "true",
            f"{ASSERTION}.template.file": str(template),
            "sasl.oauthbearer.scope": "kafka",
        },
        f'clientId="me" clientSecret="{SECRET}"',
    )
    assert found.grant == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert (found.client_id, found.client_secret.reveal(), found.scope) == ("", "", "kafka")
    signed = found.assertion
    assert signed is not None
    assert (signed.sent_as, signed.algorithm) == ("assertion", "RS256")
    assert (signed.lifetime_s, signed.not_before_s, signed.has_id) == (600, 0, True)
    assert json.loads(signed.header) == {"kid": "k1"}
    assert json.loads(signed.claims) == {
        "iss": "me",
        "sub": "other",  # the template wins
        "aud": "https://idp/token",
        "roles": ["a"],
    }


def test_a_client_that_an_assertion_proves(key_file: Path) -> None:
    """In place of its secret (KIP-1258); its id may be left out."""
    found = oauth(by_key(key_file))
    assert found.grant == "client_credentials"
    assert found.assertion is not None
    assert (found.assertion.sent_as, found.assertion.lifetime_s) == ("client_assertion", 300)
    assert (found.assertion.not_before_s, found.assertion.has_id) == (60, False)
    assert found.fields["client_assertion_type"].reveal().endswith(":jwt-bearer")
    named = oauth(by_key(key_file), f'clientId="me" clientSecret="{SECRET}"')
    assert (named.client_id, named.client_secret.reveal()) == ("me", "")


@pytest.mark.parametrize(
    ("retriever", "field"),
    [("ClientCredentialsJwtRetriever", "client_assertion"), ("JwtBearerJwtRetriever", "assertion")],
)
def test_an_assertion_in_a_file(tmp_path: Path, retriever: str, field: str) -> None:
    """It wins over a key."""
    file = tmp_path / "assertion"
    file.write_text(SECRET)
    keys = {
        **by_key(tmp_path / "none"),
        RETRIEVER: f"{KAFKAS}.{retriever}",
        f"{ASSERTION}.file": str(file),
    }
    found = oauth(keys)
    assert found.assertion is None
    assert found.fields[field].reveal() == SECRET
    assert found.files == {field: str(file)}


def test_the_key_that_signs(tmp_path: Path) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    other = ec.generate_private_key(ec.SECP384R1())
    locked = by_key(write_key(tmp_path / "locked.pem", curve, SECRET))
    by_curve = {**locked, f"{ASSERTION}.algorithm": "ES256"}
    passphrase = f"{ASSERTION}.private.key.passphrase"
    found = oauth({**by_curve, passphrase: SECRET})
    assert found.assertion is not None
    assert "BEGIN PRIVATE KEY" in found.assertion.key_pem.reveal()
    assert "BEGIN" not in repr(found)
    place = f"A.{ASSERTION}.private.key.file (line 7): "
    for keys, says in (
        (by_curve, f"its private key is encrypted (set {passphrase})"),
        ({**by_curve, passphrase: "wrong"}, f"{passphrase} is wrong"),
        ({**locked, passphrase: SECRET}, "RS256 needs an RSA key"),
        ({**by_curve, f"{ASSERTION}.algorithm": "HS256", passphrase: SECRET}, "RS256 or ES256"),
        (
            {
                **by_curve,
                f"{ASSERTION}.private.key.file": str(write_key(tmp_path / "o.pem", other)),
            },
            "ES256 needs an EC key of the curve P-256",
        ),
        ({**by_curve, f"{ASSERTION}.private.key.file": __file__}, "it holds no private key"),
    ):
        text = refusal(keys)
        assert place in text
        assert says in text


@pytest.mark.parametrize("text", ["[]", "{", '{"header": 1}', '{"payload": [1]}', "[" * 100_000])
def test_a_template_that_is_none(key_file: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    keys = {**by_key(key_file), f"{ASSERTION}.template.file": str(tmp_path / "t")}
    assert "it is not JSON like" in refusal(keys)


def test_values_that_do_not_fit(key_file: Path) -> None:
    keys = by_key(key_file)
    assert "whole number" in refusal({**keys, f"{ASSERTION}.claim.exp.seconds": "soon"})
    assert "true or false" in refusal({**keys, f"{ASSERTION}.claim.jti.include": "yes"})
    assert "true or false" in refusal({**keys, "sasl.oauthbearer.header.urlencode": "1"})


def test_strimzis_files_and_grant(tmp_path: Path) -> None:
    for name in ("access", "refresh", "assertion"):
        (tmp_path / name).write_text(f"{SECRET}-{name}")
    given = oauth({}, f'oauth.access.token.location="{tmp_path}/access"')
    assert given.access_token.reveal() == f"{SECRET}-access"
    client = 'oauth.client.id="me" oauth.token.endpoint.uri="https://i/t"'
    renewed = oauth({}, f'{client} oauth.refresh.token.location="{tmp_path}/refresh"')
    assert renewed.grant == "refresh_token"
    assert renewed.fields["refresh_token"].reveal() == f"{SECRET}-refresh"
    assert renewed.files == {"refresh_token": f"{tmp_path}/refresh"}
    proven = oauth(
        {},
        f'{client} oauth.client.assertion.location="{tmp_path}/assertion"'
        ' oauth.client.credentials.grant.type="own"',
    )
    assert proven.grant == "own"
    assert proven.fields["client_assertion"].reveal() == f"{SECRET}-assertion"
    assert proven.fields["client_assertion_type"].reveal().endswith(":jwt-bearer")


@pytest.mark.parametrize(
    ("extension", "says"),
    [
        ('extension_a-b="x"', "extension_a-b: only letters"),
        ('extension_auth="x"', "not 'auth'"),
        ('extension_a="\\001"', "printable ASCII"),
    ],
)
def test_extensions_that_would_break_the_message(extension: str, says: str) -> None:
    keys = {ENDPOINT: "https://idp/token"}
    assert says in refusal(keys, f'clientId="me" clientSecret="{SECRET}" {extension}')


def test_each_form_of_a_file_says_the_same(
    tmp_path: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A property file, causeway.yaml, and a resource of Strimzi."""
    monkeypatch.setenv("PASSPHRASE", SECRET)
    locked = write_key(tmp_path / "locked.pem", rsa.generate_private_key(65537, 2048), SECRET)
    keys = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{MODULE} extension_tenant="x";',
        HANDLER: f"{KAFKAS}.OAuthBearerLoginCallbackHandler",
        **by_key(locked),
        f"{ASSERTION}.private.key.passphrase": "${env:PASSPHRASE}",
        f"{ASSERTION}.claim.exp.seconds": "600",
        f"{ASSERTION}.claim.jti.include": "true",
        RETRIEVER: f"{KAFKAS}.JwtBearerJwtRetriever",
        "sasl.oauthbearer.scope": "kafka",
    }
    lines = "".join(f"A.{name} = {value}\n" for name, value in keys.items())
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA->B.enabled = true\nA.bootstrap.servers = a:1\n"
        f"B.bootstrap.servers = b:1\n{lines}"
    )
    first = load(file).links[0].source
    assert first.sasl is not None
    assert first.sasl.oauth is not None
    assert first.sasl.oauth.assertion is not None
    converted = tmp_path / "causeway.yaml"
    converted.write_text(convert(file).text)
    assert SECRET not in converted.read_text()
    assert "assertion:" in converted.read_text()
    assert load(converted).links[0].source == first
    login = {name: text for name, text in keys.items() if name.startswith("sasl.")}
    topics = {f"{name}StorageTopic": name for name in ("offset", "config", "status")}
    resource = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": "m"},
        "spec": {
            "target": {"alias": "B", "bootstrapServers": "b:1", "groupId": "g", **topics},
            "mirrors": [
                {
                    "source": {
                        "alias": "A",
                        "bootstrapServers": "a:1",
                        "tls": {"trustedCertificates": []},
                        "authentication": {
                            "type": "custom",
                            "sasl": True,
                            "config": {
                                **login,
                                f"{ASSERTION}.private.key.passphrase": "${strimzienv:PASSPHRASE}",
                            },
                        },
                    },
                    "sourceConnector": {},
                }
            ],
        },
    }
    strimzi = tmp_path / "resource.yaml"
    strimzi.write_text(json.dumps(resource))
    assert load(strimzi).links[0].source.sasl == first.sasl
