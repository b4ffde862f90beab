"""What options mean, and which are refused: secrets above all."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.cluster import EARLIEST, LATEST
from causeway.errors import ConfigError
from causeway.model import TopicPartition
from causeway.spark.options import connection, read_options, write_options

WHERE = {"kafka.bootstrap.servers": "h:9092"}
JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required"


def test_names_have_no_case_and_defaults_are_those_of_sparks_own_source() -> None:
    found = read_options({"SUBSCRIBEpattern": "a.*", "maxoffsetspertrigger": "5"}, streaming=True)
    assert (found.pattern, found.max_offsets) == ("a.*", 5)
    assert (found.start.at, found.end.at) == (LATEST, LATEST)
    assert read_options({"subscribe": "a"}, streaming=False).start.at == EARLIEST
    assert found.fail_on_data_loss
    assert not found.late_is_null
    assert read_options(
        {"subscribe": "a", "timestampoverflow": "NULL"}, streaming=False
    ).late_is_null
    assert found.read_committed


def test_offsets_and_times_of_each_partition() -> None:
    options = {"subscribe": "t", "startingOffsets": '{"t": {"0": 23, "1": -1}}'}
    found = read_options(options, streaming=False)
    assert found.start.at == {TopicPartition("t", 0): 23, TopicPartition("t", 1): -1}
    timed = read_options(options | {"startingTimestamp": "17"}, streaming=False)
    assert timed.start.at == 17
    assert timed.start.timed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "none of them is set"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "subscribe and assign set"),
        ({"subscribe": "a", "startingOffset": "latest"}, "is startingOffsets meant"),
        ({"subscribe": "a", "startingOffsets": "[1]"}, "must be like"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "is not JSON"),
        ({"subscribe": "a", "minPartitions": "0"}, "a number from 1 on"),
        ({"subscribe": "a", "includeHeaders": "yes"}, "true or false"),
        ({"subscribe": "a", "isolation.level": "none"}, "read_committed or"),
        ({"subscribe": "a", "timestampOverflow": "now"}, "one of error, null"),
        ({"subscribe": "a", "kafka.ssl.truststore.locations": "x"}, "meant to protect"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(options, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="a stream has no end"):
        read_options({"subscribe": "a", "endingOffsets": "latest"}, streaming=True)


def test_how_records_are_written() -> None:
    found = write_options({"topic": "t", "kafka.compression.type": "zstd", "id": "a-1"})
    assert (found.topic, found.codec, found.id, found.batch) == ("t", 4, "a-1", 0)
    with pytest.raises(ConfigError, match="option id"):
        write_options({"id": "a b"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.ssl.truststore.password", "hunter2"),
        ("kafka.ssl.keystore.key", "hunter2"),
        ("kafka.sasl.jaas.config", f'{JAAS} username="u" password="hunter2";'),
        ("kafka.sasl.jaas.config", f'{JAAS} username="${{env:U}}" password="hunter2";'),
        ("kafka.sasl.jaas.config", "hunter2"),
        ("kafka.sasl.jaas.config", f'{IAM} awsRoleSecretAccessKey="hunter2";'),
        ("kafka.sasl.jaas.config", f'{IAM} awsRoleSessionToken="hunter2";'),
        ("kafka.sasl.oauthbearer.client.credentials.client.secret", "hunter2"),
        ("kafka.sasl.oauthbearer.assertion.private.key.passphrase", "hunter2"),
        ("kafka.sasl.jaas.config", f'{JAAS} oauth.access.token="hunter2";'),
        ("kafka.sasl.jaas.config", f'{JAAS} oauth.client.assertion="hunter2";'),
        ("kafka.sasl.jaas.config", f'{JAAS} username="u" password="hunter2" tokenauth="true";'),
    ],
)
def test_a_secret_in_an_option_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match="Spark shows options") as caught:
        connection({**WHERE, name: value}, "read")
    assert name in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_names_of_files_and_clients_are_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    module = "o.OAuthBearerLoginModule required"
    options = WHERE | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.client.credentials.client.id": "me",
        "kafka.sasl.jaas.config": f"{module} oauth.access.token.location='{tmp_path}/token'"
        ' oauth.token.endpoint.uri="https://idp/token" oauth.client.assertion.location="/x";',
        "kafka.sasl.oauthbearer.assertion.private.key.file": "/key",
    }
    settings = connection(options, "read")
    assert settings.sasl is not None
    assert settings.sasl.oauth is not None
    assert settings.sasl.oauth.access_token.reveal() == "hunter2"


def test_secrets_are_looked_up_where_a_broker_is_to_be_reached() -> None:
    options = WHERE | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{JAAS} username="u" password="${{env:PW}}";',
    }
    settings = connection(options, "read", {"PW": "hunter2"})
    assert settings.sasl is not None
    assert settings.sasl.password.reveal() == "hunter2"
    with pytest.raises(ConfigError, match="PW is not set"):
        connection(options, "read", {})


def test_a_cluster_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA->B.enabled = true\n"
        "A.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA.consumer.client.id = reads\n"
    )
    options = {"config": str(file), "cluster": "A"}
    assert connection(options, "read").client_id == "reads"
    assert connection(options | {"cluster": "B"}, "write").bootstrap == (("b", 1),)
    with pytest.raises(ConfigError, match="only A, B"):
        connection(options | {"cluster": "C"}, "read")
    with pytest.raises(ConfigError, match="the file in option config says it"):
        connection(options | WHERE, "read")


def test_the_handler_that_belongs_to_a_login_is_no_unknown_option() -> None:
    handler = "kafka.sasl.client.callback.handler.class"
    amazons = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    read_options({"subscribe": "a", handler: amazons}, streaming=False)
    with pytest.raises(ConfigError, match="may be meant to protect"):
        read_options({"subscribe": "a", handler: "com.example.Own"}, streaming=False)
