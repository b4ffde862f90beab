"""A resource becomes a property file or a causeway.yaml with the same settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import javaproperties
import pytest
import yaml

from causeway.errors import ConfigError
from causeway.formats import Form, convert
from tests.harness.pems import make_pem
from tests.harness.strimzi import EXAMPLES, RESOURCES, judged, mount, other

HEAD = {
    "clusters": "A, B, C",
    **{f"{alias}.bootstrap.servers": f"{alias}:1" for alias in "ABC"},
    "A->B.enabled": "true",
    "C->B.enabled": "true",
}


def written(directory: Path, entries: Mapping[str, str], name: str = "mirror.properties") -> Path:
    file = directory / name
    file.write_text(javaproperties.dumps(dict(entries), timestamp=False))
    return file


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("secrets")
    key, certificate = make_pem()
    for name in ("cluster-a", "cluster-b"):
        user = {"password": "word", "user.crt": certificate, "user.key": key}
        mount(root / f"{name}-user", user)
        mount(root / f"{name}-cluster-ca-cert", {"ca.crt": certificate, "old.crt": certificate})
    return root


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_published_example_says_the_same_as_a_property_file_and_as_causeway_yaml(
    name: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))
    before = judged(RESOURCES / f"{name}.yaml", secrets)
    assert before is not None
    file = other(tmp_path, convert(RESOURCES / f"{name}.yaml"), "mirror.properties")
    assert "word" not in re.sub("passw?ord", "", file.read_text())
    assert "BEGIN" not in file.read_text()
    assert judged(file) == before
    yaml_file = other(tmp_path, convert(RESOURCES / f"{name}.yaml", Form.CAUSEWAY), "causeway.yaml")
    assert judged(yaml_file) == before


def test_oauth_with_certificates_of_its_own_becomes_a_property_file(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", str(secrets))
    resource = yaml.safe_load((RESOURCES / "v1beta2-plain.yaml").read_text())
    name = "cluster-a-cluster-ca-cert"
    for certificates in (["ca.crt"], ["ca.crt", "old.crt"]):
        resource["spec"]["clusters"][0]["authentication"] = {
            "type": "oauth",
            "clientId": "me",
            "clientSecret": {"secretName": "cluster-a-user", "key": "password"},
            "tokenEndpointUri": "https://idp/token",
            "tlsTrustedCertificates": [
                {"secretName": name, "certificate": each} for each in certificates
            ],
        }
        file = tmp_path / "oauth.yaml"
        file.write_text(yaml.safe_dump(resource))
        before = judged(file, secrets)
        assert before is not None
        sasl = before.links[0].source.sasl
        assert sasl is not None
        assert sasl.oauth is not None
        assert (sasl.oauth.ca_pem or "").count("BEGIN") == len(certificates)
        back = other(tmp_path, convert(file), "oauth.properties")
        assert "BEGIN" not in back.read_text()
        assert judged(back) == before
        assert judged(other(tmp_path, convert(back, Form.CAUSEWAY), "again.yaml")) == before


def test_a_pattern_needs_the_secrets_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAUSEWAY_SECRETS", raising=False)
    with pytest.raises(
        ConfigError, match=r"pattern \(line .* name its directory with --secrets DIR"
    ):
        convert(RESOURCES / "v1-scram.yaml")


def test_the_same_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has that form already"):
        convert(written(tmp_path, HEAD), Form.PROPERTIES)
