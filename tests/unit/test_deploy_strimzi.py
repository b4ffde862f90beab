"""What deploy/ gives to those who come from Strimzi: its parts fit each other, and the resource."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from causeway.config import HttpSettings
from causeway.formats import load
from causeway.formats.strimzi.secrets import MOUNTED, VARIABLE
from tests.harness.pems import make_pem

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"


def objects(name: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all((KUBERNETES / name).read_text())}


MIRROR, SPARK = objects("strimzi.yaml"), objects("spark-rbac.yaml")
POD = MIRROR["Deployment"]["spec"]["template"]["spec"]
RESOURCE = MIRROR["ConfigMap"]["data"]["mirror.yaml"]
LABELS = MIRROR["Deployment"]["spec"]["template"]["metadata"]["labels"]


def container() -> dict[str, Any]:
    (found,) = POD["containers"]
    assert isinstance(found, dict)
    return found


def test_the_resource_can_be_used_with_the_secrets_that_are_mounted(tmp_path: Path) -> None:
    """And with no others: what is not mounted is not there."""
    key, certificate = make_pem()
    volumes = {each["name"]: each for each in POD["volumes"]}
    for mount in container()["volumeMounts"]:
        place = Path(mount["mountPath"])
        if place.is_relative_to(MOUNTED):
            folder = tmp_path / place.name
            folder.mkdir()
            assert volumes[mount["name"]]["secret"]["secretName"] == place.name
            for name, text in {
                "ca.crt": certificate,
                "user.crt": certificate,
                "user.key": key,
                "password": "letmein",
            }.items():
                (folder / name).write_text(text)
    file = tmp_path / "mirror.yaml"
    file.write_text(RESOURCE)
    (link,) = load(file, environment={VARIABLE: str(tmp_path)}).links
    assert (link.source.protocol, link.target.protocol) == ("SSL", "SASL_SSL")
    assert link.control.sync_group_offsets_enabled


def test_the_pod_runs_the_resource_and_finds_its_secrets() -> None:
    found = {each["name"]: each.get("value") for each in container()["env"]}
    assert found[VARIABLE] == MOUNTED
    command, file = container()["args"]
    assert command == "run"
    mounts = {each["mountPath"]: each for each in container()["volumeMounts"]}
    folder, _, name = file.rpartition("/")
    assert mounts[folder]["name"] == "resource"
    assert name in MIRROR["ConfigMap"]["data"]
    assert {each["name"] for each in mounts.values()} == {each["name"] for each in POD["volumes"]}


@pytest.mark.parametrize("name", ["causeway.yaml", "strimzi.yaml"])
def test_an_applied_change_reaches_the_driver(name: str, tmp_path: Path) -> None:
    """The kubelet never updates a `subPath`, and a mount within another one would need a directory
    in a read-only one. The driver takes over what it finds there."""
    pod = objects(name)["Deployment"]["spec"]["template"]["spec"]
    (volume,) = [each["name"] for each in pod["volumes"] if "configMap" in each]
    mounts = pod["containers"][0]["volumeMounts"]
    (mount,) = [each for each in mounts if each["name"] == volume]
    assert "subPath" not in mount
    assert pod["containers"][0]["args"][1].rpartition("/")[0] == mount["mountPath"]
    others = [Path(each["mountPath"]) for each in mounts if each is not mount]
    assert not [each for each in others if each.is_relative_to(mount["mountPath"])]
    (text,) = objects(name)["ConfigMap"]["data"].values()
    assert "causeway.reload: on-change" in text or "causeway.reload = on-change" in text


def test_probes_ask_where_the_page_is_served_by_default() -> None:
    port = HttpSettings.port
    assert "causeway.http" not in RESOURCE
    for probe, path in (
        ("startupProbe", "healthz"),
        ("livenessProbe", "healthz"),
        ("readinessProbe", "readyz"),
    ):
        program, option, line = container()[probe]["exec"]["command"]
        assert (program, option) == ("python", "-c")
        compile(line, probe, "exec")
        assert f"'http://127.0.0.1:{port}/{path}'" in line


def test_two_pods_of_which_one_stays() -> None:
    spec = MIRROR["Deployment"]["spec"]
    assert spec["replicas"] == 2
    assert spec["selector"]["matchLabels"] == LABELS
    budget = MIRROR["PodDisruptionBudget"]["spec"]
    assert (budget["minAvailable"], budget["selector"]["matchLabels"]) == (1, LABELS)


def test_pods_accept_no_connections_and_reach_brokers_and_dns_alone() -> None:
    policy = MIRROR["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == LABELS
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    brokers = {int(port) for port in re.findall(r"bootstrap:(\d+)", RESOURCE)}
    assert ports == [53, 53, 9092]
    assert all(9092 <= port <= 9094 for port in brokers)


def test_a_pod_has_no_token_that_it_does_not_need() -> None:
    assert POD["serviceAccountName"] == MIRROR["ServiceAccount"]["metadata"]["name"]
    assert POD["automountServiceAccountToken"] is False


def test_sparks_role_says_what_it_reaches() -> None:
    """A user that may create pods has all that a pod of the namespace can mount."""
    text = (KUBERNETES / "spark-rbac.yaml").read_text().replace("\n#", "")
    said = " ".join(text.split())
    for reached in ("any Secret", "service accounts", "delete every pod", "namespace of their own"):
        assert reached in said, reached
    readme = " ".join((KUBERNETES.parent / "README.md").read_text().split())
    assert "That gives access to the whole namespace" in readme
    assert "no Secrets, nothing else" not in readme


def test_sparks_driver_may_make_pods_and_nothing_of_secrets() -> None:
    rules = SPARK["Role"]["rules"]
    granted = {
        (what, verb) for each in rules for what in each["resources"] for verb in each["verbs"]
    }
    assert {what for what, _ in granted} == {"pods", "configmaps"}
    assert "*" not in {verb for _, verb in granted}
    binding = SPARK["RoleBinding"]
    assert binding["roleRef"]["name"] == SPARK["Role"]["metadata"]["name"]
    (subject,) = binding["subjects"]
    assert subject["name"] == SPARK["ServiceAccount"]["metadata"]["name"]
    selected = SPARK["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= LABELS.items()


@pytest.mark.parametrize("name", ["causeway.yaml", "strimzi.yaml"])
def test_no_container_may_do_more_than_it_must(name: str) -> None:
    (found,) = objects(name)["Deployment"]["spec"]["template"]["spec"]["containers"]
    context = found["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
