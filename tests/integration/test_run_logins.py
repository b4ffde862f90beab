"""A mirror outlives its tokens: each login of which the credentials expire while it runs."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from causeway.config import AssertionSettings, Secret
from causeway.logins.jwt import signed_assertion
from tests.harness.command import causeway
from tests.harness.delegation_tokens import create_token
from tests.harness.google_cluster import google_cluster, has_compiler
from tests.harness.google_stand_in import google_stand_in
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.token_server import AUDIENCE, ISSUER
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, Running, assert_same, await_copied, mm2_file
from tests.harness.secured import ADMIN, PASSWORD, SecuredCluster
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KAFKAS = "org.apache.kafka.common.security"
OAUTH = f"{KAFKAS}.oauthbearer"
GOOGLE = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
PASSPHRASE = "pass-of-the-key"
TOKEN_S, FILE_TOKEN_S = 20, 40
BOTH_WAYS = ("file", "grant")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster("S", tmp_path / "certificates")
    cluster.tokens.lifetime_s = TOKEN_S
    with cluster:
        yield cluster


@contextmanager
def renewed(secured: SecuredCluster, file: Path) -> Iterator[list[float]]:
    """A token in `file`, replaced each quarter of its life. The times at which they expire."""
    expire_at: list[float] = []
    done = threading.Event()
    pem = secured.signers["ES256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    settings = AssertionSettings(
        sent_as="assertion",
        key_pem=Secret(pem.decode()),
        algorithm="ES256",
        header='{"kid": "ES256"}',
        claims=json.dumps({"iss": ISSUER, "sub": ADMIN, "aud": AUDIENCE}),
        lifetime_s=FILE_TOKEN_S,
    )

    def write() -> None:
        new = file.with_suffix(".new")
        new.write_text(signed_assertion(settings))
        os.replace(new, file)
        expire_at.append(time.time() + FILE_TOKEN_S)

    def renew() -> None:
        while not done.wait(FILE_TOKEN_S / 4):
            write()

    write()
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield expire_at
    finally:
        done.set()
        thread.join()


def ways_in(secured: SecuredCluster, folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """By name: the listener, and the keys."""
    url = secured.tokens.token_url
    for name, key in secured.signers.items():
        lock = BestAvailableEncryption(PASSPHRASE.encode())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
        (folder / f"{name}.pem").write_bytes(pem)
        (folder / f"{name}.json").write_text(json.dumps({"header": {"kid": name}}))

    def signed(algorithm: str) -> dict[str, str]:
        start = "sasl.oauthbearer.assertion"
        return {
            **oauth("", url),
            f"{start}.algorithm": algorithm,
            f"{start}.private.key.file": str(folder / f"{algorithm}.pem"),
            f"{start}.private.key.passphrase": PASSPHRASE,
            f"{start}.template.file": str(folder / f"{algorithm}.json"),
            f"{start}.claim.iss": algorithm,
            f"{start}.claim.sub": ADMIN,
            f"{start}.claim.aud": url,
            f"{start}.claim.jti.include": "true",
        }

    def oauth(options: str, endpoint: str) -> dict[str, str]:
        found = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required {options};",
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        }
        return {**found, "sasl.oauthbearer.token.endpoint.url": endpoint} if endpoint else found

    token = create_token(f"localhost:{secured.port('SASL')}", java_client())
    login = f'username="{token.id}" password="{token.hmac}" tokenauth="true"'
    file = folder / "token"
    return {
        "file": ("SASL", oauth("", file.as_uri())),
        "location": ("SHORT", oauth(f'oauth.access.token.location="{file}"', "")),
        "grant": (
            "SHORT",
            {
                **signed("ES256"),
                "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever",
            },
        ),
        "client": ("SASL", signed("RS256")),
        "delegated": (
            "SASL",
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"{KAFKAS}.scram.ScramLoginModule required {login};",
            },
        ),
    }


def java_client() -> dict[str, str]:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    module = f"{KAFKAS}.plain.PlainLoginModule"
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="{ADMIN}" password="{quoted}";',
    }


@pytest.mark.timeout(1200)
def test_a_mirror_outlives_its_tokens(
    secured: SecuredCluster,
    target: KafkaTools,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Out of the cluster by each login, and into it by some, until all first tokens have expired.
    Tokens of the endpoint last for 20 s, those in a file for 40 s, and one listener wants a new
    login every 3 s."""
    inside = KafkaTools(secured.bootstrap)
    with renewed(secured, tmp_path / "token") as expire_at:
        ways = ways_in(secured, tmp_path)
        lines = [
            f"{way}.{key} = {value}"
            for way, (_, keys) in ways.items()
            for key, value in {"security.protocol": "SASL_PLAINTEXT", **keys}.items()
        ]
        mirrors: list[tuple[KafkaTools, str, KafkaTools, str]] = []
        for way in ways:
            topic = f"{prefix}{way}"
            lines += [f"{way}->B.enabled = true", f"{way}->B.topics = {topic}"]
            mirrors.append((inside, topic, target, f"{way}.{topic}"))
        for way in BOTH_WAYS:
            topic = f"{prefix}to-{way}"
            lines += [f"B->{way}.enabled = true", f"B->{way}.topics = {topic}"]
            mirrors.append((target, topic, inside, f"B.{topic}"))
        for tools in (inside, target):
            tools.create_topics([topic for source, topic, _, _ in mirrors if source is tools])
        before, after = ([b"%s-%d" % (when, n) for n in range(100)] for when in (b"b", b"a"))
        for source, topic, _, _ in mirrors:
            source.produce(topic, before)
        servers = {
            way: f"localhost:{secured.port(listener)}" for way, (listener, _) in ways.items()
        }
        file = mm2_file(tmp_path, {**servers, "B": target_cluster}, *lines)

        with Running("run", file, directory=tmp_path) as run:
            for mirror in mirrors:
                await_copied(*mirror)
            until = max(expire_at) + 1
            await_until(lambda: time.time() > until, PATIENCE_S, "the first tokens expire")
            for source, topic, _, _ in mirrors:
                source.produce(topic, after)
            for mirror in mirrors:
                await_copied(*mirror)
            plan = causeway("plan", file)
            assert plan.code == 0, plan.out + plan.err
            assert run.stop() == 0
        verified = causeway("verify", file, "--link", "file->B")
    for mirror in mirrors:
        assert_same(*mirror)
    assert "credentials renewed" in run.log
    assert "refused" not in run.log
    told = run.log + plan.out + plan.err + verified.out + verified.err
    delegation = ways["delegated"][1]["sasl.jaas.config"].split('password="')[1].split('"')[0]
    for secret in ("eyJ", PASSPHRASE, "BEGIN PRIVATE", delegation):
        assert secret not in told
    assert verified.code == 0, verified.out + verified.err


@pytest.mark.timeout(600)
def test_a_mirror_out_of_google(
    target: KafkaTools, target_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """By the metadata server: driver and lanes each ask for tokens, which last for 20 s."""
    pytest.importorskip("google.auth")
    if not has_compiler():
        pytest.skip("needs a JDK")
    cluster = google_cluster("G", tmp_path)
    try:
        cluster.start()
        inside = KafkaTools(cluster.internal_bootstrap)
        topic = f"{prefix}orders"
        inside.create_topic(topic)
        inside.produce(topic, [b"%d" % n for n in range(100)])
        file = mm2_file(
            tmp_path,
            {"G": cluster.bootstrap, "B": target_cluster},
            "G.security.protocol = SASL_PLAINTEXT",
            "G.sasl.mechanism = OAUTHBEARER",
            f"G.sasl.login.callback.handler.class = {GOOGLE}",
            f"G.sasl.jaas.config = {OAUTH}.OAuthBearerLoginModule required;",
            "G->B.enabled = true",
            f"G->B.topics = {topic}",
        )
        with google_stand_in() as google:
            google.lifetime_s = TOKEN_S
            environment = {
                "GCE_METADATA_HOST": f"127.0.0.1:{google.port}",
                "HOME": str(tmp_path),
                "GOOGLE_APPLICATION_CREDENTIALS": "",
            }
            with Running("run", file, directory=tmp_path, environment=environment) as run:
                await_copied(inside, topic, target, f"G.{topic}")
                issued = google.issued
                await_until(lambda: google.issued >= issued + 2, PATIENCE_S, "tokens are renewed")
                inside.produce(topic, [b"later %d" % n for n in range(100)])
                await_copied(inside, topic, target, f"G.{topic}")
                assert run.stop() == 0
            assert "ya29" not in run.log
            assert "refused" not in run.log
    finally:
        cluster.destroy()
