"""Quotas of a client, by its `client.id`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka.protocol.admin import AlterClientQuotasRequest

from causeway.cluster import Cluster
from tests.harness.lanes import client


@contextmanager
def quota(bootstrap: str, client_id: str, key: str, bytes_per_s: float) -> Iterator[None]:
    """`key`: `consumer_byte_rate` or `producer_byte_rate`. Brokers throttle until it is over what
    they have announced, also after the block."""
    with Cluster(client("quotas", bootstrap)) as cluster:
        _alter(cluster, client_id, key, bytes_per_s)
        try:
            yield
        finally:
            _alter(cluster, client_id, key, None)


def _alter(cluster: Cluster, client_id: str, key: str, bytes_per_s: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
                ops=[entry.OpData(key=key, value=bytes_per_s or 0.0, remove=bytes_per_s is None)],
            )
        ],
        validate_only=False,
    )
    (answer,) = cluster.call(request, cluster.metadata([]).controller).entries
    assert not answer.error_code, answer.error_message
