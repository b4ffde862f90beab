"""Replication policies of one's own: found, asked, and refused clearly."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from causeway.config import Settings
from causeway.config.reading import policies
from causeway.errors import ConfigError
from causeway.filters import Verdict
from causeway.formats import load_mm2

PLAIN = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
MODULE = '''\
class Suffix:
    """orders -> orders_from_A"""

    def configure(self, config):
        self.config = config

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}_from_{source_alias}"

    def topic_source(self, topic):
        return topic.rpartition("_from_")[2] if "_from_" in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition("_from_")[0] or None

    def is_internal_topic(self, topic):
        return topic.startswith("private")


class Same(Suffix):
    def format_remote_topic(self, source_alias, topic):
        return topic

    def topic_source(self, topic):
        return None


class Odd(Suffix):
    def format_remote_topic(self, source_alias, topic):
        if topic == "bad":
            raise KeyError("no team")
        return {"none": None, "long": "x" * 250, "blank": "", "own": "__x"}.get(topic, "A." + topic)


class NoUpstream:
    format_remote_topic = topic_source = lambda *_: "x"


class Broken:
    def __init__(self):
        raise OSError("no file of teams")


class Silent(Suffix):
    def format_remote_topic(self, source_alias, topic):
        return None


value = 3
'''


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team_names.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "team_names", raising=False)


def load(tmp_path: Path, name: str, more: str = "") -> Settings:
    path = tmp_path / "mm2.properties"
    path.write_text(f"{PLAIN}replication.policy.class = {name}\n{more}")
    return load_mm2(path, environment={})


def refusal(tmp_path: Path, name: str, more: str = "") -> str:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, name, more)
    return str(raised.value)


def test_a_class_of_one_s_own_names_topics(tmp_path: Path) -> None:
    (flow,) = load(tmp_path, "team_names:Suffix").links

    assert flow.decide_topic("orders").target_name == "orders_from_A"
    assert flow.upstream("orders_from_A") == "orders"
    cycle = flow.decide_topic("orders_from_B")
    assert (cycle.verdict, "as orders" in cycle.reason) == (Verdict.CYCLE, True)
    internal = flow.decide_topic("private-x")
    assert (internal.verdict, internal.target_name) == (Verdict.INTERNAL, None)
    assert "team_names:Suffix" in internal.reason
    assert flow.sole_writer
    assert flow.policy.custom.config == {  # type: ignore[union-attr]
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "replication.policy.separator": ".",
    }


def test_rules_come_before_it(tmp_path: Path) -> None:
    (flow,) = load(tmp_path, "team_names:Suffix", "causeway.rename = pay => wages\n").links
    assert flow.decide_topic("pay").target_name == "wages"
    assert flow.decide_topic("orders").target_name == "orders_from_A"


def test_the_name_of_an_entry_point_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a file that names a Java class need not be changed."""
    point = EntryPoint("com.example.Teams", "team_names:Suffix", policies.GROUP)
    monkeypatch.setattr(policies, "entry_points", lambda group: EntryPoints([point]))

    (flow,) = load(tmp_path, "com.example.Teams").links

    assert flow.decide_topic("orders").target_name == "orders_from_A"
    assert "did you mean com.example.Teams?" in refusal(tmp_path, "com.example.Team")

    again = EntryPoint("com.example.Teams", "team_names:Same", policies.GROUP)
    monkeypatch.setattr(policies, "entry_points", lambda group: EntryPoints([point, again]))
    assert "several packages have one" in refusal(tmp_path, "com.example.Teams")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy names topics alike",
        ),
        (
            "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy names topics alike",
        ),
        (
            "IdentityReplicaPolicy",
            "did you mean org.apache.kafka.connect.mirror.IdentityReplicationPolicy?",
        ),
        (
            "com.acme.DefaultReplicationPolicy",
            "did you mean org.apache.kafka.connect.mirror.DefaultReplicationPolicy?",
        ),
        ("com.acme.Teams", "a Java class cannot run here (there are org.apache."),
        ("team_names:Sufix", "team_names:Sufix cannot be imported: AttributeError"),
        ("team_name:Suffix", "team_name:Suffix cannot be imported: ModuleNotFoundError"),
        ("team_name:Suffix", "put the folder of team_name.py into PYTHONPATH, or install it"),
        ("team_names.py:Suffix", "cannot be imported (write team_names:Suffix)"),
        ("team-names:Suffix", "a class is named module:Class"),
        ("team_names:value", "team_names:value is not a class"),
        (
            "team_names:NoUpstream",
            "it has no method upstream_topic (docs/reference/names.md has them)",
        ),
        ("team_names:Broken", "its constructor failed: OSError: no file of teams"),
        ("team_names:Silent", "team_names:Silent.format_remote_topic returned NoneType, not str"),
    ],
)
def test_one_that_cannot_be_used_says_why_and_what_to_do(
    tmp_path: Path, name: str, words: str
) -> None:
    told = refusal(tmp_path, name)
    assert words in told
    assert "line 5" in told


def test_what_the_class_raises_costs_that_topic_alone(tmp_path: Path) -> None:
    (flow,) = load(tmp_path, "team_names:Odd").links

    failed = flow.decide_topic("bad")
    assert failed.verdict is Verdict.POLICY_FAILED
    assert failed.reason == "team_names:Odd.format_remote_topic raised KeyError: 'no team'"
    assert flow.decide_topic("none").verdict is Verdict.POLICY_FAILED
    assert flow.decide_topic("long").verdict is Verdict.NAME_TOO_LONG
    assert flow.decide_topic("blank").verdict is Verdict.NAME_UNFIT
    assert flow.decide_topic("own").verdict is Verdict.NAME_UNFIT
    assert flow.decide_topic("orders").target_name == "A.orders"


def test_names_that_do_not_tell_their_source_are_refused_in_a_circle(tmp_path: Path) -> None:
    (flow,) = load(tmp_path, "team_names:Same").links
    assert not flow.sole_writer, "others may well write there"
    back = "B->A.enabled = true\n"
    assert re.search(
        "records would go round for ever through A->B and B->A: A->B: by team_names:Same, names",
        refusal(tmp_path, "team_names:Same", back),
    )
    assert len(load(tmp_path, "team_names:Suffix", back).links) == 2


def test_a_class_that_is_named_elsewhere_is_named_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(f"{PLAIN}replication.policy.class = ${{env:POLICY}}\n")
    (flow,) = load_mm2(path, environment={"POLICY": "team_names:Odd"}).links
    assert "team_names" not in repr(flow)
    assert "team_names" not in flow.decide_topic("bad").reason
    with pytest.raises(ConfigError, match=r"line 5: .*what it names cannot be used") as raised:
        load_mm2(path, environment={"POLICY": "tem_names:Odd"})
    assert "tem_names" not in str(raised.value)
