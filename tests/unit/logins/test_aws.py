"""Logins by IAM equal those of Amazon's own Java library, field by field, for the same credentials
and the same second."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from causeway.config import AwsSettings
from causeway.logins.aws import IamMechanism, iam_payload, iam_token, region_of
from tests.harness.msk.library import MskLibrary, msk_library
from tests.harness.msk.signatures import DeniedError, Key, payload_key, token_key

AGENT = "user-agent"
KEYS = {
    "plain": Key(id="AKIDEXAMPLE", secret="wJalr/XUtnFEMI+K7MDENG", principal="ann"),
    "session": Key(id="ASIAX", secret="s+/ =&%~é", token="a/b+c==", principal="bob"),
}
BROKERS = {
    "b-1.mine.abc123.c2.kafka.us-east-1.amazonaws.com": "us-east-1",
    "b-2-public.mine.abc123.c2.kafka.cn-north-1.amazonaws.com.cn": "cn-north-1",
    "boot-abc.c1.kafka-serverless.ap-southeast-2.amazonaws.com": "ap-southeast-2",
    "b-3.mine.abc123.c2.kafka.us-gov-west-1.amazonaws.com": "us-gov-west-1",
    "kafka-eu-west-3.example.com": "eu-west-3",
    "localhost": "eu-north-1",
}
DEFAULT_REGION = "eu-north-1"


@pytest.fixture(scope="module")
def library() -> Iterator[MskLibrary]:
    with msk_library() as found:
        yield found


def properties(key: Key) -> dict[str, str]:
    found = {
        "aws.accessKeyId": key.id,
        "aws.secretAccessKey": key.secret,
        "aws.region": DEFAULT_REGION,
    }
    return {**found, "aws.sessionToken": key.token} if key.token else found


@pytest.fixture(params=KEYS)
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Key:
    found = KEYS[request.param]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", found.id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", found.secret)
    monkeypatch.setenv("AWS_REGION", DEFAULT_REGION)
    if found.token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", found.token)
    else:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    return found


def at(stamp: str, life_s: str, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Signatures are of this time and for this life from now on. Amazon's library reads the clock
    twice, so its life of 900 s may be a little shorter."""
    now = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    assert 0 < int(life_s) <= 900
    monkeypatch.setattr("causeway.logins.aws.LIFE_S", int(life_s))
    return now


def url_of(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def parts(url: str) -> tuple[str, str, dict[str, str]]:
    split = urlsplit(url)
    return split.scheme, split.netloc, dict(parse_qsl(split.query, strict_parsing=True))


def without(name: str, fields: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize("host", BROKERS)
def test_the_payload_is_that_of_amazons_library(
    library: MskLibrary, host: str, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = library.payload(host, properties(key))
    now = at(theirs["x-amz-date"], theirs["x-amz-expires"], monkeypatch)
    payload = iam_payload(AwsSettings(), "A", host, 1)
    ours: dict[str, str] = json.loads(payload)
    assert without(AGENT, ours) == without(AGENT, theirs)
    assert ours[AGENT].startswith("causeway/")
    keys = {key.id: key}
    for each in (payload, json.dumps(theirs).encode()):
        assert payload_key(each, host, BROKERS[host], keys, now) == key


def test_the_token_is_that_of_amazons_library(
    library: MskLibrary, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = library.token(properties(key))
    scheme, address, query = parts(url_of(theirs))
    now = at(query["X-Amz-Date"], query["X-Amz-Expires"], monkeypatch)
    ours = iam_token(AwsSettings(), "A", "localhost", 1)
    our_scheme, our_address, our_query = parts(url_of(ours))
    assert (our_scheme, our_address) == (scheme, address)
    assert without("User-Agent", our_query) == without("User-Agent", query)
    assert our_query["User-Agent"].startswith("causeway/")
    for each in (ours, theirs):
        assert token_key(each.encode(), DEFAULT_REGION, {key.id: key}, now) == key


@pytest.mark.parametrize(
    "answer", [b"", b"null", b"[]", b"\xff", b'{"version":"2020_10_22","request-id":"7"}']
)
def test_both_take_the_same_answers_for_a_success(library: MskLibrary, answer: bytes) -> None:
    theirs = library.takes(answer, properties(KEYS["plain"]))
    assert takes(IamMechanism(b"payload"), answer) == theirs


def takes(mechanism: IamMechanism, answer: bytes) -> bool:
    assert mechanism.auth_bytes() == b"payload"
    try:
        mechanism.receive(answer)
    except ValueError:
        return False
    return mechanism.is_done() and mechanism.is_authenticated()


def test_the_region_is_in_a_brokers_name() -> None:
    of_msk = {host: region for host, region in BROKERS.items() if ".kafka" in host}
    assert {host: region_of(host) for host in of_msk} == of_msk
    assert region_of("b-1.us-west-2.abc.c2.kafka.eu-west-1.amazonaws.com") == "eu-west-1"
    assert region_of("B-1.X.KAFKA.EU-WEST-1.AMAZONAWS.COM") == "eu-west-1"
    assert region_of("my-kafka-1.example.com") is None


@pytest.mark.parametrize(
    "change",
    [
        {"host": "other"},
        {"action": "kafka-cluster:Alter"},
        {"x-amz-expires": "901"},
        {"x-amz-signature": "0" * 64},
        {"x-amz-date": "20200101T000000Z"},
        {"x-amz-security-token": "stolen"},
        {"version": "2020_10_23"},
    ],
)
def test_the_harness_refuses_what_is_wrong(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KEYS["plain"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    host = next(iter(BROKERS))
    payload = json.loads(iam_payload(AwsSettings(), "A", host, 1))
    assert payload["x-amz-expires"] == "900"
    now = datetime.now(UTC)
    assert payload_key(json.dumps(payload).encode(), host, "us-east-1", {key.id: key}, now)
    changed = json.dumps(payload | change).encode()
    with pytest.raises(DeniedError):
        payload_key(changed, host, "us-east-1", {key.id: key}, now)
