"""When a driver asks the brokers of a link what they have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from causeway.control import NEEDS, MissingApi, required_apis
from causeway.daemon import Sides
from causeway.daemon.startup import BrokerApis
from causeway.errors import BrokerError, UnreachableError
from tests.builders.settings import LINK

A, B = (cast(Any, name) for name in ("a", "b"))
SIDES = Sides(source=A, target=B, source_admin=A, target_admin=B)
REQUIRED = next(need for need in NEEDS if need.required)
OPTIONAL = next(need for need in NEEDS if not need.required)


class Asked:
    """In place of required_apis.lacking: what each cluster lacks, or why it does not answer."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[MissingApi, ...] | Exception] = {"a": (), "b": ()}
        self.clusters: list[str] = []

    def __call__(self, link: object, side: str, cluster: Any, _: float) -> tuple[MissingApi, ...]:
        assert side == ("source" if cluster == "a" else "target")
        self.clusters.append(cluster)
        answer = self.answers[cluster]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(required_apis, "lacking", asked)
    return asked


def test_a_cluster_that_does_not_answer_holds_up_nothing_and_is_asked_again(asked: Asked) -> None:
    asked.answers["a"] = UnreachableError("reach", "a", "no answer", retriable=True)
    brokers = BrokerApis(LINK, SIDES)
    brokers.check()
    asked.answers["a"] = ()
    brokers.check()
    brokers.check()
    assert asked.clusters == ["b", "a", "a"]


def test_what_is_required_keeps_the_link_from_beginning(
    asked: Asked, caplog: pytest.LogCaptureFixture
) -> None:
    missing = MissingApi(need=REQUIRED, cluster="b", cause="broker 1 has no such API")
    asked.answers["b"] = (
        missing,
        MissingApi(need=OPTIONAL, cluster="b", cause="broker 1 has less"),
    )
    brokers = BrokerApis(LINK, SIDES)
    for _ in range(2):
        with pytest.raises(BrokerError, match="broker 1 has no such API") as caught:
            brokers.check()
        assert not caught.value.retriable
    assert not caplog.records


def test_what_is_optional_is_said_once(asked: Asked, caplog: pytest.LogCaptureFixture) -> None:
    asked.answers["b"] = (MissingApi(need=OPTIONAL, cluster="b", cause="broker 1 has less"),)
    brokers = BrokerApis(LINK, SIDES)
    brokers.check()
    brokers.check()
    assert [record.__dict__["reason"] for record in caplog.records] == ["b: broker 1 has less"]
