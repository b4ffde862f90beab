"""What is asked of each broker, where one of them has no answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from causeway.cluster import disks, transactional_ids
from causeway.errors import BrokerError, CausewayError, UnreachableError


class Client:
    """Brokers by node, each with what it answers or how it fails."""

    def __init__(self, **answers: Any) -> None:
        self._answers = {int(node[1:]): answer for node, answer in answers.items()}

    def __str__(self) -> str:
        return "A"

    def metadata(self, _: object) -> Any:
        return SimpleNamespace(brokers=dict.fromkeys(self._answers))

    def call(self, _: object, node: int) -> Any:
        if isinstance(answer := self._answers[node], CausewayError):
            raise answer
        return answer


def listed(code: int = 0, **named: int) -> Any:
    states = [SimpleNamespace(producer_id=n, transactional_id=name) for name, n in named.items()]
    return SimpleNamespace(error_code=code, transaction_states=states)


DOWN = UnreachableError("reach", "A")


def names(**answers: Any) -> dict[int, str]:
    client: Any = Client(**answers)
    return transactional_ids(client, [1, 2])


def test_transactions_are_named_as_far_as_their_coordinators_answer() -> None:
    assert names(n1=listed(shop=1), n2=DOWN, n3=listed(14), n4=listed(till=2)) == {
        1: "shop",
        2: "till",
    }
    assert names(n1=listed(), n2=DOWN) == {}
    with pytest.raises(UnreachableError):
        names(n1=DOWN, n2=listed(14))


def test_a_disk_that_has_failed_is_named() -> None:
    failed = SimpleNamespace(error_code=56, log_dir="/data/2", topics=())
    client: Any = Client(n7=SimpleNamespace(error_code=0, results=[failed]))
    with pytest.raises(BrokerError, match=r"broker 7 of A for its disk /data/2.*STORAGE"):
        disks(client)
