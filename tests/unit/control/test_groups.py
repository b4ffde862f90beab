"""Which groups are followed, and what is written for them; no broker takes part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from causeway.cluster import Committed, GroupListing
from causeway.config import ControlSettings, LinkSettings
from causeway.control import (
    GroupCommits,
    LeftOutReason,
    TranslatedOffset,
    UnreadRecord,
)
from causeway.control.groups import checkpoints, choose, commits, follow
from causeway.errors import AuthorizationError, CausewayError
from causeway.filters import compile_patterns
from causeway.model import TopicPartition
from tests.builders.settings import link

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
M0, M1 = TopicPartition("A.t", 0), TopicPartition("A.t", 1)
ENDS = {M0: 100, M1: 100}
NOTHING: dict[TopicPartition, Committed] = {}


def watching(control: ControlSettings | None = None) -> LinkSettings:
    return link(topics_exclude="secret", control=control or ControlSettings())


def listed(
    name: str, state: str = "Stable", protocol_type: str = "consumer"
) -> dict[str, GroupListing]:
    return {name: GroupListing(name=name, state=state, type="classic", protocol_type=protocol_type)}


def at(offset: int, metadata: str = "") -> Committed:
    return Committed(offset=offset, leader_epoch=3, metadata=metadata)


def followed(commits: Mapping[TopicPartition, Committed], group: str = "g") -> GroupCommits:
    return follow({group: commits}, watching())


def test_groups_are_chosen_by_name_and_kind() -> None:
    control = ControlSettings(groups=compile_patterns("app.*, tool"))
    listing = (
        listed("app-1")
        | listed("app-0", "Empty", "")
        | listed("tool", protocol_type="streams")
        | listed("app-share", protocol_type="share")
        | listed("console-consumer-1")
        | listed("other")
    )
    chosen = choose(listing, watching(control))
    assert chosen.groups == ("app-0", "app-1", "tool")
    assert {left.group: (left.code, left.reason) for left in chosen.left_out} == {
        "app-share": (
            LeftOutReason.NOT_CONSUMERS,
            "on A it is a group of type share, which has no such offsets",
        ),
        "console-consumer-1": (
            LeftOutReason.EXCLUDED,
            "excluded by groups.exclude pattern console-consumer-.*",
        ),
        "other": (LeftOutReason.NOT_INCLUDED, "not matched by groups"),
    }


def test_only_topics_of_the_link_count() -> None:
    back, excluded = TopicPartition("B.orders", 2), TopicPartition("secret", 0)
    hidden = AuthorizationError("read the offsets of", "group h on A", "not allowed")
    found: dict[str, Any] = {
        "g": {T0: at(5), back: at(6), excluded: at(7)},
        "e": {excluded: at(1)},
        "n": {},
        "h": hidden,
    }
    result = follow(found, watching())
    assert result.commits == {"g": {T0: at(5), back: at(6)}}
    assert {left.group: left.code for left in result.left_out} == {
        "e": LeftOutReason.NOTHING_MIRRORED,
        "n": LeftOutReason.NOTHING_MIRRORED,
        "h": LeftOutReason.UNREADABLE,
    }
    assert result.left_out[1].reason == str(hidden)


def test_groups_that_the_file_names_are_asked_for_though_no_list_has_them() -> None:
    control = ControlSettings(groups=compile_patterns("hid\\.den, app.*, out"))
    control = replace(control, groups_exclude=compile_patterns("out"))
    assert choose(listed("app-1"), watching(control)).groups == ("app-1", "hid.den")
    of_connect = listed("hid.den", protocol_type="connect")
    assert choose(of_connect, watching(control)).groups == (), "what the list says of it counts"


def written(
    upstream: int,
    downstream: int | None,
    last: TranslatedOffset | None = None,
    *,
    certainly: bool = False,
    alone: bool = True,
) -> tuple[int, int] | None:
    """Returns the offsets of the checkpoint that is written, if one is."""
    before = {} if last is None else {"g": {M0: last}}
    translated = {}
    if downstream is not None:
        translated[M0] = TranslatedOffset(upstream, downstream, certain=certainly, alone=alone)
    due = checkpoints({"g": translated}, before)
    assert due in ({}, {"g": translated})
    return None if not due else (due["g"][M0].upstream, due["g"][M0].downstream)


def test_the_first_checkpoint_of_a_partition() -> None:
    assert written(7, 5) == (7, 5)
    assert written(7, 0) == (7, 0)


def test_no_checkpoint_for_what_is_not_translated() -> None:
    assert written(7, None) is None
    assert checkpoints({}, {}) == {}


def test_a_checkpoint_where_the_group_went_on() -> None:
    last = TranslatedOffset(7, 5)
    assert written(8, 6, last) == (8, 6)
    assert written(7, 6, last) == (7, 6), "translated better by now"
    assert written(7, 5, last) is None
    assert written(8, 5, last) is None, "over a gap"


def test_a_checkpoint_that_is_proven_wrong_is_put_right() -> None:
    """The target was made anew, or MirrorMaker 2 had written it."""
    last = TranslatedOffset(7, 5)
    assert written(7, 3, last, certainly=True) == (7, 3)
    assert written(8, 4, last, certainly=True) == (8, 4)
    assert written(7, 5, last, certainly=True) is None


def test_downstream_goes_back_only_if_the_group_did() -> None:
    last = TranslatedOffset(7, 5)
    assert written(8, 4, last) is None
    assert written(7, 4, last) is None
    assert written(6, 4, last) == (6, 4)


def test_where_several_partitions_decide_only_a_certain_place_goes_back() -> None:
    """Which of them it is that decides may change, though the group went on in each."""
    last = TranslatedOffset(7, 5)
    assert written(2, 4, last, alone=False) is None
    assert written(2, 4, last, alone=False, certainly=True) == (2, 4)
    assert written(2, 6, last, alone=False) == (2, 6)


def planned(
    own: Mapping[TopicPartition, Committed],
    translated: Mapping[TopicPartition, int],
    there: Mapping[TopicPartition, Committed] | CausewayError = NOTHING,
    listing: Mapping[str, GroupListing] = {},
    ends: Mapping[TopicPartition, int] = ENDS,
) -> GroupCommits:
    names = {T0: M0, T1: M1}
    stands = {
        names[place]: TranslatedOffset(own[place].offset, offset, own[place].metadata)
        for place, offset in translated.items()
        if place in own
    }
    return commits(followed(own), {"g": stands}, listing, {"g": there}, ends, watching(), {})


def why(plan: GroupCommits) -> LeftOutReason:
    assert plan.commits == {}
    (left,) = plan.left_out
    return left.code


def test_a_group_that_is_new_on_the_target_gets_all_its_offsets() -> None:
    plan = planned({T0: at(7, "m"), T1: at(3)}, {T0: 5, T1: 0})
    assert plan.commits == {
        "g": {M0: Committed(offset=5, metadata="m"), M1: Committed(offset=0)},
    }
    assert plan.left_out == ()


def test_only_what_is_missing_or_behind_is_committed() -> None:
    own, translated = {T0: at(7), T1: at(7)}, {T0: 5, T1: 5}
    empty = listed("g", "Empty")
    assert planned(own, translated, {M0: at(5)}, empty).commits == {"g": {M1: Committed(offset=5)}}
    assert planned(own, translated, {M0: at(4), M1: at(6)}, empty).commits == {
        "g": {M0: Committed(offset=5)}
    }
    assert why(planned(own, translated, {M0: at(6), M1: at(5)}, empty)) is LeftOutReason.UP_TO_DATE


def test_never_past_the_end_of_what_is_mirrored() -> None:
    assert planned({T0: at(500)}, {T0: 400}).commits == {"g": {M0: Committed(offset=100)}}
    assert why(planned({T0: at(500)}, {T0: 400}, {M0: at(100)})) is LeftOutReason.UP_TO_DATE
    assert why(planned({T0: at(5)}, {T0: 5}, ends={})) is LeftOutReason.NOT_TRANSLATED


def test_never_past_a_record_that_the_group_has_not_read() -> None:
    own, stands = followed({T0: at(50)}), {"g": {M0: TranslatedOffset(50, 50)}}
    empty = listed("g", "Empty")

    def plan(there: dict[TopicPartition, Committed], offset: int) -> GroupCommits:
        unread = {"g": {M0: UnreadRecord(offset, "a record of others")}}
        return commits(own, stands, empty, {"g": there}, ENDS, watching(), unread)

    assert plan({}, 40).commits == {"g": {M0: Committed(offset=40)}}
    assert plan({M0: at(30)}, 40).commits == {"g": {M0: Committed(offset=40)}}
    assert plan({}, 60).commits == {"g": {M0: Committed(offset=50)}}
    held = plan({M0: at(40)}, 40)
    assert why(held) is LeftOutReason.HELD_BACK
    assert "held back at offset 40" in held.left_out[0].reason


def test_a_group_with_members_is_left_alone() -> None:
    for state in ("Stable", "PreparingRebalance", "CompletingRebalance", "Assigning"):
        plan = planned({T0: at(7)}, {T0: 5}, {}, listed("g", state))
        assert why(plan) is LeftOutReason.HAS_MEMBERS
        assert state in plan.left_out[0].reason


def test_other_reasons_to_commit_nothing() -> None:
    share = listed("g", "Empty", "share")
    assert why(planned({T0: at(7)}, {T0: 5}, {}, share)) is LeftOutReason.NOT_CONSUMERS
    hidden = AuthorizationError("read the offsets of", "group g on B", "not allowed")
    assert why(planned({T0: at(7)}, {T0: 5}, hidden)) is LeftOutReason.UNREADABLE
    assert why(planned({T0: at(7)}, {})) is LeftOutReason.NOT_TRANSLATED


offsets = st.integers(0, 200)
partitions = st.sampled_from([T0, T1])


@given(
    st.dictionaries(partitions, offsets.map(at)),
    st.dictionaries(partitions, st.integers(0, 200)),
    st.dictionaries(st.sampled_from([M0, M1]), offsets.map(at)),
)
def test_commits_only_go_on_and_once_is_enough(
    own: dict[TopicPartition, Committed],
    translated: dict[TopicPartition, int],
    there: dict[TopicPartition, Committed],
) -> None:
    wanted = planned(own, translated, there).commits.get("g", {})
    for place, committed in wanted.items():
        assert 0 <= committed.offset <= ENDS[place]
        assert place not in there or committed.offset > there[place].offset
    assert planned(own, translated, {**there, **wanted}).commits == {}


@given(st.lists(st.tuples(offsets, offsets), max_size=20))
def test_checkpoints_go_back_only_with_the_group(steps: list[tuple[int, int]]) -> None:
    last: TranslatedOffset | None = None
    for step in steps:
        if (new := written(*step, last)) is not None:
            assert new == step
            if last is not None and new[1] < last.downstream:
                assert new[0] < last.upstream
            last = TranslatedOffset(*new)
        assert written(*step, last) is None
