"""Logins of `DualProducer` by tokens that Causeway gets, with stand-ins for the tokens' issuers."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from causeway.extras import install_extra
from causeway.logins.jwt import claims_of, encoded
from causeway_producer import DualProducer, SettingsError
from causeway_producer.logins import TokenLogin
from causeway_producer.options import Options, check
from tests.harness.dual_producer import Open, alike, opened, settled, side_of, until
from tests.harness.google_stand_in import ACCOUNT, google_stand_in
from tests.harness.kafka.token_server import TokenServer
from tests.harness.tokens import TokenEndpoint, token_endpoint
from tests.harness.two_sides import TwoSides, two_sides
from tests.harness.waiting import await_until

__all__ = ["opened", "two_sides"]

SECRET = "s3cret-word"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{OAUTH}.OAuthBearerLoginModule required"
IAM = "software.amazon.msk.auth.iam"
BROKER = "b-1.mine.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"
WEST = {"bootstrap.servers": "127.0.0.1:2", "log_level": 0}
CLIENT = {
    "sasl.oauthbearer.client.credentials.client.id": "me",
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


def east(login: Mapping[str, Any], mechanism: str = "OAUTHBEARER") -> dict[str, Any]:
    return {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "log_level": 0,
        **login,
    }


def of(side: Mapping[str, Any]) -> Options:
    return check(side, WEST, "unused", {})


def login_of(side: Mapping[str, Any]) -> TokenLogin:
    """librdkafka's clients get OAUTHBEARER, the function, and no key of Java's clients."""
    [primary, _] = of(side).sides
    for settings in (primary.producer, primary.reader):
        sasl = {key: value for key, value in settings.items() if key.startswith("sasl.")}
        assert sasl == {"sasl.mechanism": "OAUTHBEARER"}
    found = primary.producer["oauth_cb"]
    assert found is primary.reader["oauth_cb"]
    assert isinstance(found, TokenLogin)
    return found


def at_endpoint(endpoint: TokenEndpoint, **more: str) -> dict[str, Any]:
    url = {"sasl.oauthbearer.token.endpoint.url": endpoint.url}
    return east({**url, **CLIENT, **more})


def test_client_and_secret(endpoint: TokenEndpoint) -> None:
    """All clients of a side share the token, and are told how long it lasts."""
    login = login_of(at_endpoint(endpoint))
    for _ in range(2):
        token, expires_at, principal, extensions = login("")
        assert (token, principal, extensions) == ("token-1", "", {})
        assert 50 < expires_at - time.time() <= 60
    [(authorization, form)] = endpoint.requests
    assert authorization == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert form == {"grant_type": ["client_credentials"]}


def test_options_of_the_login_module_and_extensions(endpoint: TokenEndpoint) -> None:
    options = f'clientId="me" clientSecret="{SECRET}" scope="kafka" extension_logicalCluster="l-1"'
    login = login_of(
        east(
            {
                "sasl.jaas.config": f"{MODULE} {options};",
                "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "sasl.login.refresh.window.factor": 0.8,
            }
        )
    )
    assert login("")[3] == {"logicalCluster": "l-1"}
    assert endpoint.requests[0][1]["scope"] == ["kafka"]


def write_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    new = file.with_suffix(".new")
    new.write_bytes(pem)
    os.replace(new, file)
    return key


@pytest.mark.parametrize("retriever", ["JwtBearerJwtRetriever", "ClientCredentialsJwtRetriever"])
def test_assertions_and_a_new_key_in_the_file(tmp_path: Path, retriever: str) -> None:
    """The first token lasts for a second; the issuer then trusts another key alone."""
    file = tmp_path / "key.pem"
    start = "sasl.oauthbearer.assertion"
    with TokenServer({}) as server:
        server.trusted, server.lifetime_s = {"me": write_key(file).public_key()}, 1
        login = login_of(
            east(
                {
                    "sasl.oauthbearer.token.endpoint.url": server.token_url,
                    "sasl.jaas.config": f"{MODULE};",
                    "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.{retriever}",
                    f"{start}.algorithm": "ES256",
                    f"{start}.private.key.file": str(file),
                    f"{start}.claim.iss": "me",
                    f"{start}.claim.sub": "robot",
                    f"{start}.claim.aud": server.token_url,
                    f"{start}.claim.jti.include": True,
                }
            )
        )
        assert claims_of(login("")[0])["sub"] == "robot"
        server.trusted = {"me": write_key(file).public_key()}
        assert claims_of(login("")[0])["sub"] == "robot"


def jwt_until(at: float) -> str:
    return f"e30.{encoded(json.dumps({'exp': at}).encode())}.x"


def test_a_token_that_is_renewed_on_disk(tmp_path: Path) -> None:
    file, now = tmp_path / "token", time.time()
    file.write_text("opaque")
    login = login_of(east({"sasl.oauthbearer.token.endpoint.url": file.as_uri()}))
    token, expires_at, *_ = login("")
    assert token == "opaque"
    assert 0 < expires_at - time.time() <= 60  # so the file is read again within a minute
    for life_s in (1000, 2000):
        file.write_text(jwt_until(now + life_s))
        token, expires_at, *_ = login("")
        assert (token, expires_at) == (jwt_until(now + life_s), now + life_s)


def test_googles_handler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("google.auth")
    with google_stand_in() as google:
        (tmp_path / "key.json").write_text(google.key_of_service_account())
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        handler = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
        login = login_of(
            east(
                {
                    "sasl.jaas.config": f"{MODULE};",
                    "sasl.login.callback.handler.class": handler,
                }
            )
        )
        token, expires_at, *_ = login("")
    assert claims_of(token)["sub"] == ACCOUNT
    assert abs(claims_of(token)["exp"] - expires_at) < 2


@pytest.mark.parametrize(
    "keys",
    [
        {"sasl.mechanism": "AWS_MSK_IAM"},
        {
            "sasl.mechanism": "AWS_MSK_IAM",
            "sasl.jaas.config": f"{IAM}.IAMLoginModule required;",
            "sasl.client.callback.handler.class": f"{IAM}.IAMClientCallbackHandler",
        },
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{MODULE};",
            "sasl.login.callback.handler.class": f"{IAM}.IAMOAuthBearerLoginCallbackHandler",
        },
    ],
)
def test_amazons_handlers(keys: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """MSK takes the signed request as a token, too."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAME")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    token, expires_at, *_ = login_of({**east(keys), "bootstrap.servers": BROKER})("")
    url = base64.urlsafe_b64decode(token + "==").decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "AKIAME" in url
    assert abs(expires_at - time.time() - 900) < 60


@pytest.mark.parametrize(
    "keys",
    [
        {"oauth_cb": lambda _: ("token", 0.0)},
        {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "me"},
        {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=me"},
    ],
)
def test_logins_of_librdkafka_stay_as_they_are(keys: Mapping[str, Any]) -> None:
    producer = of(east(keys)).sides[0].producer
    assert producer.items() >= keys.items()


# -- errors


def refused(side: Mapping[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        of(side)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_without_causeway(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "causeway.logins", None)
    start, remedy = "configure DualProducer: sasl.mechanism of east: ", "install its wheel"
    said = refused(at_endpoint(endpoint))
    assert said.startswith(f"{start}OAUTHBEARER without oauth_cb and sasl.oauthbearer.method=oidc")
    assert remedy in said
    said = refused(east({}, "AWS_MSK_IAM"))
    assert said.startswith(f"{start}AWS_MSK_IAM is a login of Causeway")
    assert remedy in said
    of(east({"oauth_cb": lambda _: ("token", 0.0)}))  # needs nothing more


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "cluster east has no sasl.jaas.config"),
        ({**CLIENT, "sasl.login.callback.handler": "x"}, "sasl.login.callback.handler is no key"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "Causeway runs no Java class"),
        (
            {"sasl.oauthbearer.token.endpoint.url": "file:///nonexistent"},
            "read /nonexistent: there is no such file",
        ),
    ],
)
def test_a_login_that_cannot_be_used(keys: Mapping[str, Any], says: str) -> None:
    said = refused(east(keys))
    assert said.startswith("configure DualProducer: side east: use the login of east: ")
    assert says in said


def test_a_login_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("causeway.config.reading.aws.find_spec", lambda _: None)
    assert install_extra("aws") in refused(east({}, "AWS_MSK_IAM"))


def test_login_modules_of_passwords() -> None:
    jaas = {"sasl.jaas.config": f'ScramLoginModule required username="me" password="{SECRET}";'}
    said = refused(east(jaas, "SCRAM-SHA-512"))
    assert "librdkafka has no login modules for SCRAM-SHA-512" in said
    assert "set sasl.username and sasl.password" in said
    assert "leave out oauth_cb" in refused(east({**jaas, "oauth_cb": lambda _: ("token", 0.0)}))


@pytest.mark.parametrize(
    "keys", [{"sasl.mechanism": "GSSAPI"}, {"sasl.jaas.config": "Krb5LoginModule required;"}]
)
def test_kerberos_is_not_in_librdkafkas_wheel(keys: Mapping[str, Any], tmp_path: Path) -> None:
    """With the default of sasl.mechanism, too."""
    default = {key: value for key, value in east({}).items() if key != "sasl.mechanism"}
    side = {**default, **keys}
    with pytest.raises(SettingsError, match=r"side east: .*build confluent-kafka from source"):
        DualProducer(side, WEST, spool=tmp_path)


def test_an_issuer_that_refuses(endpoint: TokenEndpoint) -> None:
    """`error_cb` and `failed` say why, until there is a token again."""
    heard: list[KafkaError] = []
    endpoint.status, endpoint.answer = 401, b'{"error": "invalid_client"}'
    login = login_of({**at_endpoint(endpoint), "error_cb": heard.append})
    for _ in range(2):
        with pytest.raises(Exception, match="invalid_client"):
            login("")
    assert "get a token from http://127.0.0.1" in login.failed
    assert "check the client id, its secret and the scope" in login.failed
    assert SECRET not in login.failed
    assert [(each.code(), each.str()) for each in heard] == [
        (KafkaError._AUTHENTICATION, login.failed)
    ]
    endpoint.status, endpoint.answer = 200, None
    login("")
    assert login.failed == ""


def test_a_side_without_its_first_token_starts_later(
    two_sides: TwoSides, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An issuer of one data centre is down: the application starts, the other side works."""
    fake, is_down = confluent_kafka.Producer, True

    def producer(settings: Mapping[str, Any]) -> Any:
        if is_down and settings["bootstrap.servers"] == "west":
            raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, "no token"))
        return fake(settings)

    monkeypatch.setattr(confluent_kafka, "Producer", producer)
    started = opened(policy="any")
    until(started, lambda: side_of(started, "west")["reason"] == "no token")
    is_down = False
    started.produce("orders", b"1", partition=0)
    settled(started)
    assert alike(two_sides)["orders", 0] == [b"1"]


def test_librdkafka_asks_again_before_a_token_expires(endpoint: TokenEndpoint) -> None:
    """In a thread of its own: nothing polls."""
    endpoint.lifetime_s = 2
    client = confluent_kafka.Producer(dict(of(at_endpoint(endpoint)).sides[0].producer))
    asked = len(endpoint.requests)
    await_until(lambda: len(endpoint.requests) > asked, 60, "a renewal")
    del client


@pytest.mark.slow
def test_a_side_says_why_it_has_no_new_token(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    """With brokers that do not answer, and an issuer that is out of order for a while."""
    endpoint.lifetime_s = 2
    with DualProducer(at_endpoint(endpoint), WEST, spool=tmp_path) as producer:
        endpoint.status, endpoint.answer = 401, b'{"error": "invalid_client"}'
        await_until(lambda: "invalid_client" in side_of(producer, "east")["reason"], 60)
        endpoint.status, endpoint.answer = 200, None
        await_until(lambda: "invalid_client" not in side_of(producer, "east")["reason"], 60)
        producer.close(0)
