"""Records to try things with: what is wrong is told in a line."""

from __future__ import annotations

import pytest
from kafka.errors import InvalidTopicError, KafkaConnectionError, KafkaError

from causeway.dev import load as records
from causeway.errors import CausewayError, UnreachableError

COLLIDES = "Topic 'a.b' collides with existing topic: a_b"
ANSWER = (
    "Request 'CreateTopicsRequest(…)' failed with response 'CreateTopicsResponse(topics="
    f"[CreatableTopicResult(name='a.b', error_code=17, error_message=\"{COLLIDES}\", x=-1)])'."
)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (InvalidTopicError(ANSWER), CausewayError, f"produce to a.b: {COLLIDES}"),
        (KafkaConnectionError("gone"), UnreachableError, "gone"),
    ],
)
def test_the_message_of_the_broker_is_shown(
    error: KafkaError, kind: type[CausewayError], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(records, "KafkaAdminClient", refuse)
    with pytest.raises(kind) as raised:
        records.make_topic("b:1", "a.b")
    assert told in str(raised.value)
    assert "CreateTopics" not in str(raised.value)
