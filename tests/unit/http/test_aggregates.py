"""Where topics of one name come together."""

from __future__ import annotations

from causeway.http.aggregates import aggregates
from causeway.http.views import View
from causeway.naming import ReplicationPolicy
from tests.builders.served import settings
from tests.builders.status import full, link, partition
from tests.harness.statuses import replace


def found(
    flows: dict[tuple[str, str], dict[str, str]], *, keeps_names: bool = False
) -> dict[tuple[str, str], list[tuple[str, str | None]]]:
    """Of flows by source and target, each with its topics and what they are called on the target:
    by cluster and name, topics with the links that bring them."""
    rows, links = [], []
    for (source, target), topics in flows.items():
        parts = (
            replace(partition(0), topic=topic, target_topic=there)
            for topic, there in sorted(topics.items())
        )
        rows.append(replace(link(*parts), name=f"{source}->{target}", source=source, target=target))
        each = settings(source, target)
        if keeps_names:
            policy = ReplicationPolicy(kind="identity", source_alias=source)
            each = replace(each, policy=policy)
        links.append(each)
    view = View(full(*rows))
    return {
        (each.cluster, each.name): [(part.topic, part.link) for part in each.parts]
        for each in aggregates(view, links)
    }


def test_topics_of_one_name_from_several_clusters_are_one_aggregate() -> None:
    assert found(
        {
            ("A", "C"): {"orders": "A.orders", "eu.x": "A.eu.x"},
            ("B", "C"): {"orders": "B.orders", "us.x": "B.us.x"},
        }
    ) == {("C", "orders"): [("A.orders", "A->C"), ("B.orders", "B->C")]}


def test_what_is_written_on_the_cluster_itself_belongs_to_it() -> None:
    both_ways = {("A", "B"): {"orders": "A.orders"}, ("B", "A"): {"orders": "B.orders"}}
    assert found(both_ways) == {
        ("A", "orders"): [("B.orders", "B->A"), ("orders", None)],
        ("B", "orders"): [("A.orders", "A->B"), ("orders", None)],
    }


def test_what_came_over_another_cluster_keeps_its_name() -> None:
    assert found(
        {
            ("A", "B"): {"orders": "A.orders"},
            ("B", "C"): {"A.orders": "B.A.orders"},
            ("D", "C"): {"orders": "D.orders"},
        }
    ) == {("C", "orders"): [("B.A.orders", "B->C"), ("D.orders", "D->C")]}


def test_where_names_stay_several_links_feed_one_topic() -> None:
    flows = {("A", "C"): {"orders": "orders"}, ("B", "C"): {"orders": "orders", "one": "one"}}
    assert found(flows, keeps_names=True) == {
        ("C", "orders"): [("orders", "A->C"), ("orders", "B->C")]
    }


def test_what_was_renamed_belongs_to_the_name_that_it_had() -> None:
    flows = {
        ("A", "B"): {"orders": "sales", "sales": "other"},
        ("B", "C"): {"sales": "all.sales"},
        ("D", "C"): {"orders": "D.orders"},
    }
    assert found(flows) == {("C", "orders"): [("D.orders", "D->C"), ("all.sales", "B->C")]}
