"""The dashboard, the alerts and the scrape configuration speak of metrics and labels that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from causeway.metrics import text as metrics_text
from causeway.model import State
from causeway.status import Role
from tests.builders.status import full

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "causeway.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "causeway-rules.yaml").read_text())
SCRAPE = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]

BY_PROMETHEUS = {"job", "instance"}  # labels of every sample
VALUES: Mapping[str, set[str]] = {
    "state": {state.value for state in State},
    "role": {role.value for role in Role},
    "job": {job["job_name"] for job in SCRAPE["scrape_configs"]},
}

_STRING = r'"(?:[^"\\]|\\.)*"'
_MATCHER = re.compile(rf"(\w+)\s*(=~|!~|!=|=)\s*({_STRING})")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(rf"([a-zA-Z_:][\w:]*)\s*(\{{(?:{_STRING}|[^}}\"])*\}})?(?!\w|\s*\()")
_WORDS = {"and", "or", "unless", "bool", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """What a PromQL expression asks for: each metric with its label matchers, and the labels that
    it groups or joins by."""

    selectors: list[tuple[str, list[tuple[str, str]]]]
    groupings: set[str]

    @classmethod
    def of(cls, text: str) -> Expression:
        groupings = {
            label.strip()
            for labels in _GROUPING.findall(text)
            for label in labels.split(",")
            if label.strip()
        }
        bare = re.sub(r"\[[^\]]*\]", "", _GROUPING.sub(" ", text))
        selectors = [
            (name, [(label, value[1:-1]) for label, _, value in _MATCHER.findall(matchers or "")])
            for name, matchers in _SELECTOR.findall(bare)
            if name not in _WORDS
        ]
        return cls(selectors=selectors, groupings=groupings)


def exported() -> dict[str, set[str]]:
    """The labels of each metric that a run has, of which everything is known."""
    page = metrics_text(full()).decode()
    found: dict[str, set[str]] = {"up": set()}  # Prometheus's own, of each target
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


EXPORTED = exported()


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            yield panel


def expressions() -> Iterator[tuple[str, str]]:
    """Each with where it stands."""
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", _labelled(variable)[0]
    for alert in ALERTS:
        yield f"alert {alert['alert']}", alert["expr"]


def _labelled(variable: dict[str, Any]) -> tuple[str, str]:
    """Of `label_values(selector, label)`."""
    match = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", variable["query"])
    assert match is not None, variable["query"]
    return match[1], match[2]


def problems(text: str) -> Iterator[str]:
    expression = Expression.of(text)
    if not expression.selectors:
        yield "it asks for nothing"
    for name, matchers in expression.selectors:
        if name not in EXPORTED:
            yield f"no metric {name}"
            continue
        labels = EXPORTED[name] | BY_PROMETHEUS
        used = {label for label, _ in matchers} | expression.groupings
        yield from (f"{name} has no label {label}" for label in sorted(used - labels))
        for label, value in matchers:
            wrong = set(value.split("|")) - VALUES.get(label, set(value.split("|")))
            if "$" not in value and wrong:
                yield f"{label} is never {wrong}"


@pytest.mark.parametrize(("where", "text"), list(expressions()))
def test_every_expression_asks_for_what_exists(where: str, text: str) -> None:
    assert list(problems(text)) == [], f"{where}: {text}"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("rate(causeway_partition_record_total[5m])", "no metric causeway_partition_record_total"),
        ('up{job="x", host=~"a{2}"}', "up has no label host"),
        ("sum by (lane) (causeway_link_role)", "causeway_link_role has no label lane"),
        ('causeway_partition_state{state=~"failed|asleep"}', "state is never {'asleep'}"),
        ("time() > 3", "it asks for nothing"),
    ],
)
def test_a_wrong_expression_is_found(text: str, wrong: str) -> None:
    assert wrong in list(problems(text))


def result_labels(text: str) -> set[str]:
    """Those that a result of the expression can have."""
    expression = Expression.of(text)
    if expression.groupings:
        return expression.groupings
    return set.union(BY_PROMETHEUS, *(EXPORTED[name] for name, _ in expression.selectors))


def test_legends_name_labels_that_the_results_have() -> None:
    for panel in panels():
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
            assert named <= result_labels(target["expr"]), panel["title"]


def test_tables_show_columns_that_the_results_have() -> None:
    for panel in panels():
        for step in panel.get("transformations", []):
            shown = set(step["options"]["include"]["names"])
            assert shown <= result_labels(panel["targets"][0]["expr"]), panel["title"]


def test_variables_exist_that_expressions_and_panels_use() -> None:
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps([*panels(), DASHBOARD["templating"]])))
    assert used <= variables | {"__rate_interval", "__all"}
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = _labelled(variable)
            ((name, _),) = Expression.of(selector).selectors
            assert label in EXPORTED[name] | BY_PROMETHEUS


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"].keys() == {"summary", "description"}
    text = " ".join(alert["annotations"].values())
    named = set(re.findall(r"\$labels\.(\w+)", text))
    assert named <= result_labels(alert["expr"])
    assert re.findall(r"\{\{.*?\}\}", text) == re.findall(
        r"\{\{ \$(?:labels\.\w+|value(?: \| humanize(?:Duration)?)?) \}\}", text
    )
    assert re.fullmatch(r"\d+[smh]", alert.get("for", "0s"))


def test_alerts_have_names_of_their_own() -> None:
    names = [alert["alert"] for alert in ALERTS]
    assert len(names) == len(set(names))


def test_prometheus_reads_the_rules_that_are_here() -> None:
    (file,) = SCRAPE["rule_files"]
    assert (DEPLOY / "prometheus" / file).exists()
