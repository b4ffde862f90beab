"""Wherever a secret may stand in a file, and however it is mangled there, no six characters of it
come out again: in no error, no warning and no repr of what was read.

Secrets are planted as people write and miswrite them: unquoted, with quotes and blanks inside, over
several lines without backslashes, in URLs, from providers. Lines that hold none are the same for
all; what is printed of them is not the secret's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causeway.config import (
    OF_FLOWS,
    SECURITY,
    ClientKeys,
    FetchSettings,
    HttpSettings,
    RunSettings,
    Settings,
    WebhookSettings,
)
from causeway.config.transform_keys import TRANSFORM_NAMES as NAMES
from causeway.errors import CausewayError
from causeway.formats import load_mm1, load_mm2
from tests.harness.examples import examples

PIECE = 6
# What people's and machines' passwords are made of, and what files, JAAS, PEM and URLs trip over.
# `${…}` is a reference wherever it stands, and the name of a variable that is not set is told.
SECRETS = st.text(
    "BDFGHJKQVWXZ2456789" * 2 + " \"'=;:\\#!/@${}.,+-_", min_size=8, max_size=40
).filter(lambda text: "${" not in text)
BASE = """clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
JAAS = "org.apache.kafka.common.security"
PLAIN = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
OAUTH = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = OAUTHBEARER\n"
    "A.sasl.oauthbearer.client.credentials.client.id = me\n"
)
SSL = "A.security.protocol = SSL\nA.ssl.keystore.type = PEM\nA.ssl.truststore.type = PEM\n"
URL = "A.sasl.oauthbearer.token.endpoint.url = "
CLIENT_SECRET = "A.sasl.oauthbearer.client.credentials.client.secret = "
ASSERTION = "A.sasl.oauthbearer.assertion."
CHAIN = "A.ssl.keystore.certificate.chain = -----BEGIN CERTIFICATE-----\n"
PLACES = {
    "quoted": PLAIN + JAAS + '.plain.PlainLoginModule required username="u" password="{}";',
    "unquoted": PLAIN + JAAS + ".plain.PlainLoginModule required username=u password={};",
    "single quotes": PLAIN + JAAS + ".plain.PlainLoginModule required password='{}' username='u';",
    "no end": PLAIN + JAAS + ".plain.PlainLoginModule required username=u password={}",
    "nothing but the secret": PLAIN + "{}",
    "user and secret": PLAIN + "ann:{} required;",
    "as the flag": PLAIN + JAAS + ".plain.PlainLoginModule {};",
    "lines without backslashes": PLAIN + JAAS + '.plain.PlainLoginModule required\n "{}"\n {};',
    "another mechanism": PLAIN + JAAS + '.scram.ScramLoginModule required password="{}";',
    "OAuth in JAAS": OAUTH
    + URL
    + "https://h/t\nA.sasl.jaas.config = "
    + JAAS
    + '.oauthbearer.OAuthBearerLoginModule required clientSecret="{}" extension_x="{}";',
    **{
        option: OAUTH
        + URL
        + "https://h/t\nA.sasl.jaas.config = "
        + JAAS
        + f'.oauthbearer.OAuthBearerLoginModule required {option}="{{}}";'
        for option in ("oauth.access.token", "oauth.client.assertion", "oauth.refresh.token")
    },
    "passphrase of the key of assertions": OAUTH
    + URL
    + "https://h/t\n"
    + ASSERTION
    + "claim.iss = me\n"
    + ASSERTION
    + f"private.key.file = {__file__}\n"
    + ASSERTION
    + "private.key.passphrase = {}",
    "delegation token": PLAIN.replace("PLAIN\n", "SCRAM-SHA-256\n")
    + JAAS
    + '.scram.ScramLoginModule required username="u" password="{}" tokenauth="true";',
    "client secret": OAUTH + CLIENT_SECRET + "{}",
    "client secret and endpoint": OAUTH + CLIENT_SECRET + "{}\n" + URL + "https://h/t",
    "user and password in the URL": OAUTH + CLIENT_SECRET + "x\n" + URL + "https://u:{}@h/t",
    "user in the URL": OAUTH + CLIENT_SECRET + "x\n" + URL + "https://{}@h:80/t",
    "the URL": OAUTH + CLIENT_SECRET + "x\n" + URL + "{}",
    "key": SSL + "A.ssl.keystore.key = {}\n" + CHAIN,
    "key in PEM": SSL + CHAIN + "A.ssl.keystore.key = -----BEGIN PRIVATE KEY----- {} "
    "-----END PRIVATE KEY-----",
    "key without backslashes": SSL + "A.ssl.keystore.key = -----BEGIN PRIVATE KEY-----\n{}\n{}\n"
    "-----END PRIVATE KEY-----\n" + CHAIN,
    "a key, pasted": "A.ssl.keystore.key = -----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE",
    "beside what it belongs to": "A.client.id = a\n{}\n  {};",
    "key's password": SSL + "A.ssl.key.password = {}\nA.ssl.keystore.location = /no/such/file",
    "key store's password": SSL + "A.ssl.keystore.password = {}\nA.ssl.keystore.location = /no",
    "trust store's password": SSL + "A.ssl.truststore.password = {}\nA.ssl.truststore.location =/",
    "for Spark": "spark.ssl.keyPassword = {}\nspark.authenticate.secret = {}",
    "an unknown key's value": "A.no.such.password = {}\nno.such.secret = {}",
}


def all_that_is_said(load: Callable[[], Settings], *, with_repr: bool = True) -> str:
    try:
        found = load()
    except CausewayError as error:
        return f"{error} {error!r}"
    return str(found.warnings) + (repr(found) if with_repr else "")


def assert_hidden(secret: str, said: str, without: str) -> None:
    """`without`: what is said of the same file with another secret, in other characters."""
    for at in range(len(secret) - PIECE + 1):
        piece = secret[at : at + PIECE]
        assert piece not in said or piece in without, f"{piece!r} of {secret!r} in: {said}"


def write(folder: Path, text: str) -> Path:
    path = folder / "mm2.properties"
    path.write_text(BASE + text, encoding="latin-1")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets")


MANY = settings(
    max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("place", PLACES)
@MANY
@given(secret=SECRETS)
def test_what_is_planted_in_a_file(folder: Path, place: str, secret: str) -> None:
    def said(value: str) -> str:
        path = write(folder, PLACES[place].replace("{}", value) + "\n")
        return all_that_is_said(lambda: load_mm2(path, environment={}))

    assert_hidden(secret, said(secret), said("m" * 8))


PROCESS = (RunSettings, HttpSettings, WebhookSettings)
KEYS = sorted(
    {"clusters", "spark.master", "spark.causeway.note", "causeway.no.such.key"}
    | OF_FLOWS.union(*(keys.key_names() for keys in (*PROCESS, ClientKeys, FetchSettings)))
    | {f"A->B.{name}" for name in OF_FLOWS}
    | {f"A.{name}" for name in SECURITY}
    | {f"A.consumer.{name}" for name in FetchSettings.key_names() | ClientKeys.key_names()}
)


@settings(max_examples=examples(300))
@given(key=st.sampled_from(KEYS), secret=SECRETS, protocol=st.sampled_from(["SSL", "SASL_SSL"]))
def test_what_a_provider_resolved(folder: Path, key: str, secret: str, protocol: str) -> None:
    def said(value: str) -> str:
        path = write(folder, f"A.security.protocol = {protocol}\n{key} = ${{env:PLANTED}}\n")
        load = lambda: load_mm2(path, environment={"PLANTED": value})  # noqa: E731
        # A value that is right is shown as what it is: an address, an alias, a pattern.
        return all_that_is_said(load, with_repr=False)

    assert_hidden(secret, said(secret), said("m" * 8))


@settings(max_examples=examples(200))
@given(key=st.sampled_from(sorted(NAMES | {"secret.k"})), secret=SECRETS)
def test_what_a_transform_is_given(folder: Path, key: str, secret: str) -> None:
    def said(value: str) -> str:
        text = "\n".join(
            f"causeway.transform.pii.{name}"
            for name in (
                "topics = x",
                "sql.file = absent.sql",
                "registry.url = http://r",
                f"{key} = ${{env:P}}",
            )
        )
        path = write(folder, f"causeway.transforms = pii\n{text}\n")
        load = lambda: load_mm2(path, environment={"P": value})  # noqa: E731
        return all_that_is_said(load, with_repr=False)

    assert_hidden(secret, said(secret), said("m" * 8))


@settings(max_examples=examples(100))
@given(
    place=st.sampled_from([p for p in PLACES if p not in ("for Spark", "an unknown key's value")]),
    secret=SECRETS,
)
def test_what_is_planted_in_mirror_maker_1s_files(folder: Path, place: str, secret: str) -> None:
    consumer, producer = folder / "consumer.properties", folder / "producer.properties"
    producer.write_text("bootstrap.servers = b:1\n")

    def said(value: str) -> str:
        text = PLACES[place].replace("A.", "", 99).replace("{}", value)
        consumer.write_text(f"bootstrap.servers = a:1\ngroup.id = g\n{text}\n", "latin-1")
        return all_that_is_said(lambda: load_mm1([consumer], producer, "x", environment={}))

    assert_hidden(secret, said(secret), said("m" * 8))
