"""IAM logins to Amazon MSK as people's files have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from causeway.config import AwsSettings, ClientSettings, SaslSettings, Secret, from_wire, to_wire
from causeway.errors import ConfigError
from causeway.extras import install_extra
from causeway.formats import load
from causeway.mm2_diff import compare

IAM = "software.amazon.msk.auth.iam"
MODULE = f"{IAM}.IAMLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
ROLE = "arn:aws:iam::123456789012:role/mirror"
SECRET = "wJalr/XUtnFEMI+K7MDENG="
ALL = (
    f'awsProfileName="mirror" awsRoleArn="{ROLE}" awsRoleExternalId="x" awsRoleSessionName="east"'
    f' awsStsRegion="eu-west-1" awsRoleAccessKeyId="AKIA1" awsRoleSecretAccessKey="{SECRET}"'
    ' awsRoleSessionToken="token==" awsDebugCreds="true" awsMaxRetries="7" awsShouldUseFips="true"'
    ' awsMaxBackOffTimeMs="500" awsAddDefaultProviders="false"'
)
EVERYTHING = AwsSettings(
    profile="mirror",
    role_arn=ROLE,
    role_external_id="x",
    role_session_name="east",
    sts_region="eu-west-1",
    access_key_id=Secret("AKIA1"),
    secret_access_key=Secret(SECRET),
    session_token=Secret("token=="),
    default_sources=False,
    fips=True,
    max_retries=7,
    max_backoff_ms=500,
    tells_identity=True,
)


def properties(folder: Path, options: str, *more: str) -> Path:
    file = folder / "mm2.properties"
    lines = [
        "clusters = A, B",
        "A.bootstrap.servers = b-1.a.kafka.eu-west-1.amazonaws.com:9098",
        "A.security.protocol = SASL_SSL",
        "A.sasl.mechanism = AWS_MSK_IAM",
        f"A.sasl.jaas.config = {MODULE} required {options};",
        f"A.sasl.client.callback.handler.class = {IAM}.IAMClientCallbackHandler",
        "B.bootstrap.servers = h:1",
        "A->B.enabled = true",
        *more,
    ]
    file.write_text("\n".join(lines))
    return file


def reader(file: Path) -> ClientSettings:
    settings = load(file)
    assert not [line for line in settings.warnings if "sasl" in line]
    return settings.links[0].source


def sasl(file: Path) -> SaslSettings:
    found = reader(file).sasl
    assert found is not None
    return found


def test_a_property_file_with_every_option(tmp_path: Path) -> None:
    found = sasl(properties(tmp_path, ALL))
    assert found == SaslSettings(mechanism="AWS_MSK_IAM", aws=EVERYTHING)
    assert SECRET not in repr(found)


def test_without_options(tmp_path: Path) -> None:
    assert sasl(properties(tmp_path, "")).aws == AwsSettings()


def test_oauthbearer_with_msks_handler(tmp_path: Path) -> None:
    file = properties(
        tmp_path,
        "",
        "A.sasl.mechanism = OAUTHBEARER",
        f"A.sasl.jaas.config = {OAUTH} required {ALL};",
        f"A.sasl.login.callback.handler.class = {IAM}.IAMOAuthBearerLoginCallbackHandler",
        f"A.sasl.client.callback.handler.class = {IAM}.IAMOAuthBearerLoginCallbackHandler",
    )
    lines = {line.split(" = ")[0]: line for line in file.read_text().splitlines()}
    file.write_text("\n".join(lines.values()))
    assert sasl(file) == SaslSettings(mechanism="OAUTHBEARER", aws=EVERYTHING)


def test_causeway_yaml(tmp_path: Path) -> None:
    file = tmp_path / "causeway.yaml"
    file.write_text(
        f"""
clusters:
  A:
    bootstrap: b-1.a.kafka.eu-west-1.amazonaws.com:9098
    security:
      protocol: SASL_SSL
      sasl:
        mechanism: AWS_MSK_IAM
        jaas-config: {MODULE} required {ALL};
  B:
    bootstrap: h:1
links:
  - {{from: A, to: B}}
"""
    )
    assert sasl(file).aws == EVERYTHING


def test_causeway_yaml_with_the_default_credentials(tmp_path: Path) -> None:
    file = tmp_path / "causeway.yaml"
    security = "{protocol: SASL_SSL, sasl: {mechanism: AWS_MSK_IAM}}"
    file.write_text(
        f"clusters: {{A: {{bootstrap: 'h:1', security: {security}}}, B: {{bootstrap: 'h:2'}}}}\n"
        "links: [{from: A, to: B}]\n"
    )
    assert sasl(file) == SaslSettings(mechanism="AWS_MSK_IAM", aws=AwsSettings())


def test_a_resource_of_strimzi(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(
        f"""
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {{name: m}}
spec:
  version: 4.1.0
  replicas: 1
  target:
    alias: B
    bootstrapServers: h:1
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
  mirrors:
    - source:
        alias: A
        bootstrapServers: b-1.a.kafka.eu-west-1.amazonaws.com:9098
        tls: {{}}
        authentication:
          type: custom
          sasl: true
          config:
            sasl.mechanism: AWS_MSK_IAM
            sasl.jaas.config: {MODULE} required {ALL};
            sasl.client.callback.handler.class: {IAM}.IAMClientCallbackHandler
      sourceConnector: {{}}
"""
    )
    assert sasl(file).aws == EVERYTHING


def test_lanes_get_the_keys(tmp_path: Path) -> None:
    settings = reader(properties(tmp_path, ALL))
    assert from_wire(json.loads(json.dumps(to_wire(settings)))) == settings


def test_diff_finds_nothing_to_say(tmp_path: Path) -> None:
    found = compare(properties(tmp_path, ALL))
    assert found.refused == ()
    assert [key.key for key in found.keys if "sasl" in key.key and key.note] == []


def test_another_handler_of_the_client_has_no_effect_and_is_named(tmp_path: Path) -> None:
    file = properties(tmp_path, "")
    file.write_text(file.read_text().replace(f"{IAM}.IAMClientCallbackHandler", "com.example.Own"))
    (warning,) = [line for line in load(file).warnings if "sasl" in line]
    assert "A.sasl.client.callback.handler.class" in warning


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ('awsRegion="x"', "options of the login module that are not supported: awsRegion"),
        ('awsMskRegionProvider="x.Y"', "awsMskRegionProvider is not supported"),
        ('awsMaxRetries="many"', "awsMaxRetries must be a whole number"),
        ('awsRoleArn="mirror"', "awsRoleArn must be an ARN"),
        (f'awsRoleArn="{ROLE}" awsRoleAccessKeyId="A"', "go together"),
        ('awsAddDefaultProviders="false"', "needs awsProfileName or awsRoleArn"),
    ],
)
def test_refusals(tmp_path: Path, options: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        load(properties(tmp_path, options))


def test_keys_without_a_role_have_no_effect(tmp_path: Path) -> None:
    """As in Amazon's library."""
    options = f'awsRoleAccessKeyId="A" awsRoleSecretAccessKey="{SECRET}"'
    assert sasl(properties(tmp_path, options)).aws == AwsSettings()


def test_without_the_extra_a_file_says_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("causeway.config.reading.aws.find_spec", lambda _: None)
    with pytest.raises(ConfigError) as failure:
        load(properties(tmp_path, ALL))
    lines = [line for line in str(failure.value).splitlines() if "botocore" in line]
    assert len(lines) == 1
    assert install_extra("aws") in lines[0]
    assert SECRET not in str(failure.value)
