"""Which topics can keep their offsets, why others cannot, and how their gaps are filled."""

from __future__ import annotations

from typing import Any, cast

import pytest

from causeway.cluster import Cluster
from causeway.config import LinkSettings, TransformSettings
from causeway.control import CreateTopic, claim_checks, configs, preserving
from causeway.control.configs import ObservedConfigs
from causeway.control.topics import TopicPlan, plan
from causeway.errors import AuthorizationError, BrokerError
from causeway.filters import compile_patterns
from causeway.model import Loss, State
from causeway.wire import apis, codes
from tests.builders import records
from tests.builders.settings import link
from tests.builders.topics import entries, mirrored, observed


def keeping(**more: Any) -> LinkSettings:
    return link(replication_factor=1, **{"offsets": "preserve", **more})


def planned(settings: LinkSettings, there: dict[str, int] | None = None, **own: str) -> TopicPlan:
    configs_of = {"orders": entries({n.replace("_", "."): v for n, v in own.items()})}
    return plan(observed({"orders": 2}, there or {}, source_configs=configs_of), settings)


def why(settings: LinkSettings, there: dict[str, int] | None = None) -> str:
    found = planned(settings, there)
    assert not found.mirrored
    assert not found.changes
    (problem,) = found.problems
    return str(problem.error)


def test_a_topic_keeps_its_offsets_if_the_file_says_so() -> None:
    (topic,) = planned(keeping()).mirrored
    assert (topic.preserves, topic.compacted, topic.deletes) == (True, False, True)
    (topic,) = planned(link(replication_factor=1)).mirrored
    assert not topic.preserves
    some = keeping(offsets="translate", preserve_topics=compile_patterns("ord.*"))
    assert planned(some).mirrored[0].preserves


@pytest.mark.parametrize(
    ("policy", "compacted", "deletes"),
    [("compact", True, False), ("compact,delete", True, True), ("delete", False, True)],
)
def test_whether_the_target_compacts_and_deletes(
    policy: str, compacted: bool, deletes: bool
) -> None:
    (topic,) = planned(keeping(), cleanup_policy=policy).mirrored
    assert (topic.compacted, topic.deletes) == (compacted, deletes)


def test_names_that_others_may_use_are_ours_alone_unless_the_file_says_otherwise() -> None:
    kept = keeping(sole_writer=False, stops_on_data=True)
    (topic,) = planned(kept).mirrored
    assert topic.preserves
    assert kept.is_sole_writer("orders")
    assert not link(sole_writer=False).is_sole_writer("orders")
    denied = keeping(sole_writer=False, joins=True, declared_sole_writer=False)
    for word in ("causeway.sole.writer = false", "others may write", "causeway.offsets"):
        assert word in why(denied)


def test_what_cannot_keep_offsets_is_refused_with_the_reason() -> None:
    assert "causeway.delivery = at-least-once" in why(keeping(delivery="at-least-once"))
    assert "keys choose" in why(keeping(partitioning="by-key"))
    assert "has 3 partitions, and orders has 2" in why(keeping(), {"A.orders": 3})
    # Fewer partitions are added, as for other mirrors.
    assert planned(keeping(), {"A.orders": 1}).mirrored


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"rules": "mask value.$.card"}, None),
        ({"sql": "SELECT key, upper(value) AS value FROM records WHERE topic = 'x'"}, None),
        ({"sql": "SELECT Explode (split(value, ',')) AS value FROM records"}, "explode()"),
        ({"sql": "SELECT v.* FROM records LATERAL VIEW posexplode_outer(a) v"}, "posexplode()"),
        ({"sql": "SELECT *, 'eu' AS topic FROM records"}, "the topic of records"),
        ({"sql": "SELECT * EXCEPT (partition), 0 AS `partition` FROM records"}, "the partition"),
        ({"python": "mine:function"}, None),
    ],
)
def test_a_transform_makes_at_most_one_record_of_one(
    fields: dict[str, str], refused: str | None
) -> None:
    one = TransformSettings(name="t", topics=compile_patterns(".*"), **cast(Any, fields))
    settings = keeping(transforms=(one,))
    if refused is None:
        assert planned(settings).mirrored
    else:
        assert refused in why(settings)
        assert planned(keeping(offsets="translate", transforms=(one,))).mirrored


def test_configs_are_taken_back_once_the_beginning_is_filled() -> None:
    source = entries({"cleanup.policy": "compact"})
    target = entries({"cleanup.policy": "compact,delete", "retention.ms": "-1"})
    seen = ObservedConfigs(source={"t": source}, target={"A.t": target})
    during = configs.plan(seen, mirrored("t"), keeping(), {"t"})
    assert during.changes == ()
    (change,) = configs.plan(seen, mirrored("t"), keeping()).changes
    assert dict(change.configs)["cleanup.policy"] == "compact"


class Rights:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self, _: object) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[int, tuple[int, int]]]:
    """Of the target's brokers."""
    markers = apis.WRITE_TXN_MARKERS
    found = {1: {markers.key: (markers.lowest, markers.highest)}}
    monkeypatch.setattr(preserving, "versions_of_brokers", lambda _: found)
    return found


def test_brokers_without_markers_get_transactions(
    monkeypatch: pytest.MonkeyPatch, versions: dict[int, dict[int, tuple[int, int]]]
) -> None:
    monkeypatch.setattr(preserving, "cluster_rights", Rights(frozenset({"CLUSTER_ACTION"})))
    versions[2] = {}
    found = preserving.filling(keeping(), cast(Cluster, None))
    assert found == preserving.Filling(
        way="transactions", lacks="a broker of B has no WriteTxnMarkers"
    )


OLD = BrokerError("ask", "B", "too old", code=codes.UNSUPPORTED_VERSION, name="UNSUPPORTED_VERSION")


@pytest.mark.parametrize(
    ("answer", "way"),
    [
        (frozenset({"CLUSTER_ACTION", "ALTER"}), "markers"),
        (frozenset({"ALTER"}), "transactions"),
        (None, "transactions"),
        (frozenset(), "transactions"),
        (OLD, "transactions"),
    ],
)
def test_our_rights_decide_how_gaps_are_filled(
    monkeypatch: pytest.MonkeyPatch, answer: Any, way: str
) -> None:
    monkeypatch.setattr(preserving, "cluster_rights", Rights(answer))
    found = preserving.filling(keeping(), cast(Cluster, None))
    assert found.way == way
    assert (found.lacks is None) == (way == "markers")
    for named in ("markers", "transactions"):
        assert preserving.filling(keeping(offset_gaps=named), cast(Cluster, None)).way == named


def test_a_target_that_does_not_answer_about_rights_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preserving, "cluster_rights", Rights(AuthorizationError("ask", "B")))
    with pytest.raises(AuthorizationError):
        preserving.filling(keeping(), cast(Cluster, None))


def test_a_loss_becomes_a_gap() -> None:
    """The target's end stays, and the next record has its own offset."""
    known = records.progress(
        state=State.STOPPED, offsets_from=20, position=60, loss=Loss(60, 90, "deleted")
    )
    (outlet,) = known.outlets
    known = known.replace(outlets=(outlet.replace(pair=outlet.pair._replace(source=60)),))
    after = claim_checks.passed(known, 90, adopted_end=500)
    assert after.outlets[0].pair == (90, 60, 60)
    assert after.outlets[0].differs_to == 90, "the source may have records there"
    assert (after.offsets_from, after.position, after.lost) == (20, 90, 30)
    about = claim_checks.about(known, 90, adopted=True)
    assert about["offsets_to_fill"] == "30"


def test_a_loss_while_the_beginning_is_filled_moves_the_beginning() -> None:
    known = records.progress(
        state=State.STOPPED, offsets_from=80, position=60, loss=Loss(80, 90, "deleted")
    )
    after = claim_checks.passed(known, 90)
    assert after.outlets == known.outlets
    assert (after.offsets_from, after.position, after.loss) == (90, 60, None)


def test_a_new_topic_is_created_with_the_source_s_configs() -> None:
    (change,) = planned(keeping(), cleanup_policy="compact").changes
    assert isinstance(change, CreateTopic)
    assert dict(change.configs)["cleanup.policy"] == "compact"
    assert change.partitions == 2
