"""Which clusters a link is between, by their ids."""

from __future__ import annotations

from typing import cast

import pytest

from causeway.cluster import Cluster
from causeway.config import ClientSettings
from causeway.daemon import Sides
from causeway.daemon import clients as clients
from causeway.errors import ConfigError
from causeway.link_topics import ClusterIds
from tests.builders.settings import LINK


class Client:
    """`counts`: what another flow of the process expects already."""

    def __init__(self, counts: str | None = None) -> None:
        self.settings = ClientSettings(alias="A", bootstrap=(("a", 1),))
        self.counts = counts

    def __str__(self) -> str:
        return self.settings.alias

    def expect(self, cluster_id: str) -> str:
        return self.counts or cluster_id


@pytest.mark.parametrize(
    ("known", "counts"),
    [("old", "new"), (None, "old")],
    ids=["the other flow knows it by its addresses", "the other flow knows it by its progress"],
)
def test_a_cluster_that_was_set_up_again_is_named_in_the_remedy(
    known: str | None, counts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a failback: only the flow in one direction has progress, and either may be first."""
    monkeypatch.setattr(clients, "one_cluster", lambda *_: "new")
    moved, other = cast(Cluster, Client(counts)), cast(Cluster, Client())
    sides = Sides(source=moved, source_admin=moved, target=other, target_admin=other)

    with pytest.raises(ConfigError, match="another flow of the file has") as refused:
        clients.settle_clusters(sides, LINK, ClusterIds(source=known))

    assert "set A.causeway.cluster.id = new" in str(refused.value)
