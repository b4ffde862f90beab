"""Each file of the page about managed services means what it should."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from causeway.config import ClientSettings, SaslSettings
from causeway.config.reading import google
from causeway.formats import convert, load
from causeway_producer.logins import TokenLogin
from causeway_producer.options import check
from tests.harness.kafka.certificates import create_certificates

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "managed-services.md"
SECRETS = {
    "MSK_PASSWORD": "an-msk-password",
    "GOOGLE_KEY_BASE64": "a-key",
    "EVENT_HUBS_CONNECTION_STRING": "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey=s=",
    "AZURE_CLIENT_SECRET": "a-secret",
    "CONFLUENT_API_KEY": "A-KEY",
    "CONFLUENT_API_SECRET": "an-api-secret",
    "OAUTH_CLIENT_SECRET": "an-oauth-secret",
    "AIVEN_PASSWORD": "a-password",
}
USER = "CONFLUENT_API_KEY"


def blocks() -> Iterator[tuple[str, str]]:
    """The heading above each file, and the file."""
    heading = ""
    for found in re.finditer(
        r"^## ([^\n]+)$|^```properties\n(.*?)^```$", PAGE.read_text(), re.M | re.S
    ):
        if found.group(1):
            heading = found.group(1)
        else:
            yield heading, found.group(2)


FILES = list(blocks())


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = create_certificates(tmp_path / "certificates")
    stores = {
        "client.keystore.p12": certificates.keystore("PKCS12"),
        "client.truststore.jks": certificates.truststore("JKS"),
        "ca.pem": certificates.ca,
    }
    for name, made in stores.items():
        (tmp_path / name).write_bytes(made.read_bytes())
    (tmp_path / "azure-identity-token").write_text("an-assertion")
    for name, value in {**SECRETS, "AIVEN_STORE_PASSWORD": certificates.password}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setattr(google, "is_installed", lambda: True)
    monkeypatch.setattr("causeway.config.reading.aws.find_spec", lambda _: object())


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mm2.properties"
    for folder in ("/etc/causeway", "/var/run/secrets/azure/tokens"):
        text = text.replace(folder, str(tmp_path))
    file.write_text(text)
    return file


def read(tmp_path: Path, service: str, number: int) -> ClientSettings:
    """The file with this number among those of the service."""
    text = [text for heading, text in FILES if heading == service][number]
    settings = load(write(tmp_path, text))
    (link,) = settings.links
    assert not any("not acted on" in line or "unknown" in line for line in settings.warnings)
    assert (link.target.alias, link.target.bootstrap) == ("B", (("b.example.com", 9092),))
    assert [each.text for each in link.topics] == ["orders"]
    return link.source


def login(tmp_path: Path, service: str, number: int) -> SaslSettings:
    client = read(tmp_path, service, number)
    assert client.protocol == "SASL_SSL"
    assert client.sasl is not None
    return client.sasl


@pytest.mark.parametrize("number", range(len(FILES)))
def test_each_file_means_the_same_as_causeway_yaml(tmp_path: Path, number: int) -> None:
    file = write(tmp_path, FILES[number][1])
    converted = tmp_path / "causeway.yaml"
    converted.write_text(convert(file).text)
    before, after = load(file).links[0].source, load(converted).links[0].source
    assert after == before
    shown = f"{converted.read_text()} {before!r}"
    assert not [value for name, value in SECRETS.items() if value in shown and name != USER]


def test_the_page_has_a_file_for_each_service() -> None:
    assert [heading for heading, _ in FILES] == [
        *["Amazon MSK"] * 3,
        *["Google Managed Service for Apache Kafka"] * 2,
        *["Azure Event Hubs"] * 3,
        *["Confluent Cloud"] * 2,
        *["Aiven for Apache Kafka"] * 2,
    ]


def test_amazon(tmp_path: Path) -> None:
    sasl = login(tmp_path, "Amazon MSK", 0)
    assert sasl.mechanism == "AWS_MSK_IAM"
    assert sasl.aws is not None
    assert sasl.aws.default_sources
    bearer = login(tmp_path, "Amazon MSK", 1)
    assert bearer.mechanism == "OAUTHBEARER"
    assert bearer.aws is not None
    assert bearer.aws.role_arn == "arn:aws:iam::123456789012:role/mirror"
    assert (bearer.aws.role_session_name, bearer.aws.sts_region) == ("causeway", "eu-west-1")
    scram = login(tmp_path, "Amazon MSK", 2)
    assert (scram.mechanism, scram.username) == ("SCRAM-SHA-512", "mirror")


def test_google(tmp_path: Path) -> None:
    service = "Google Managed Service for Apache Kafka"
    sasl = login(tmp_path, service, 0)
    assert sasl.google is not None
    plain = login(tmp_path, service, 1)
    assert (plain.mechanism, plain.password.reveal()) == ("PLAIN", "a-key")
    assert plain.username == "mirror@my-project.iam.gserviceaccount.com"


def test_event_hubs(tmp_path: Path) -> None:
    plain = login(tmp_path, "Azure Event Hubs", 0)
    assert plain.username == "$ConnectionString"
    assert plain.password.reveal() == SECRETS["EVENT_HUBS_CONNECTION_STRING"]
    oauth = login(tmp_path, "Azure Event Hubs", 1).oauth
    assert oauth is not None
    assert oauth.token_endpoint.startswith("https://login.microsoftonline.com/")
    assert oauth.scope == "https://mynamespace.servicebus.windows.net/.default"
    assert oauth.client_secret.reveal() == "a-secret"
    identity = login(tmp_path, "Azure Event Hubs", 2).oauth
    assert identity is not None
    assert identity.client_id == "11111111-1111-1111-1111-111111111111"
    assert identity.client_secret.reveal() == ""
    assert identity.fields["client_assertion"].reveal() == "an-assertion"
    assert identity.fields["client_assertion_type"].reveal().endswith(":jwt-bearer")
    assert identity.scope == oauth.scope


def test_confluent(tmp_path: Path) -> None:
    plain = login(tmp_path, "Confluent Cloud", 0)
    assert (plain.username, plain.password.reveal()) == ("A-KEY", "an-api-secret")
    oauth = login(tmp_path, "Confluent Cloud", 1).oauth
    assert oauth is not None
    assert (oauth.client_id, oauth.scope) == ("mirror", "kafka")
    assert oauth.extensions == {"logicalCluster": "lkc-12345", "identityPoolId": "pool-12345"}


def test_aiven(tmp_path: Path) -> None:
    client = read(tmp_path, "Aiven for Apache Kafka", 0)
    assert (client.protocol, client.sasl) == ("SSL", None)
    assert client.tls is not None
    assert client.tls.cert_pem is not None
    assert client.tls.ca_pem is not None
    scram = login(tmp_path, "Aiven for Apache Kafka", 1)
    assert (scram.mechanism, scram.username) == ("SCRAM-SHA-256", "avnadmin")


def test_the_sides_of_a_dual_producer() -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    sides: dict[str, Any] = {"os": os}
    exec(text, sides)
    options = check(sides["google"], sides["confluent"], "unused", {})
    google_side, confluent_side = (each.producer for each in options.sides)
    assert isinstance(google_side["oauth_cb"], TokenLogin)
    assert confluent_side["sasl.password"] == SECRETS["CONFLUENT_API_SECRET"]
