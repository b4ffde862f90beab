"""What deploy/ gives to systemd and Kubernetes is what these take, and speaks of what there is."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml

from causeway.cli.main import app
from causeway.formats import load

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "causeway@.service"
KUBERNETES = ROOT / "deploy" / "kubernetes"
DRAIN_S = 60  # at the most, see operations.md
BAD_FILE, NOT_INSTALLED = "2", "6"  # exit codes that a new start does not mend

OBJECTS: dict[str, dict[str, Any]] = {
    each["kind"]: each for each in yaml.safe_load_all((KUBERNETES / "causeway.yaml").read_text())
}


def service() -> dict[str, str]:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


def container() -> dict[str, Any]:
    (found,) = OBJECTS["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def commands() -> set[str | None]:
    return {each.name for each in app.registered_commands}


def test_the_unit_runs_a_command_that_exists() -> None:
    program, command, file = shlex.split(service()["ExecStart"])
    assert Path(program).name == "causeway"
    assert command in commands()
    assert file.endswith("%i.properties")


def test_the_unit_lets_the_driver_drain_its_lanes() -> None:
    found = service()
    assert found["KillMode"] == "mixed"
    assert int(found["TimeoutStopSec"]) > DRAIN_S
    assert found["Restart"] == "always"
    assert found["RestartPreventExitStatus"] == f"{BAD_FILE} {NOT_INSTALLED}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """All of it but where Causeway is installed."""
    text = UNIT.read_text()
    text = re.sub(r"ExecStart=\S+", f"ExecStart={shutil.which('true')}", text)
    text = re.sub(r"(?m)^Documentation=.*\n", "", text)
    copy = tmp_path / "causeway@orders.service"
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "causeway@" in line]
    assert ours == [], done.stderr


@pytest.mark.parametrize(
    "each",
    [
        pytest.param(each, id=f"{file.name} {each['kind']}")
        for file in sorted(KUBERNETES.glob("*.yaml"))
        for each in yaml.safe_load_all(file.read_text())
    ],
)
def test_kubernetes_takes_it(each: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the schemas' library, of its own imports
        import kubernetes_validate

        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_its_file_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variables that the Secret has, and no others; its port is the probes'."""
    text = OBJECTS["ConfigMap"]["data"]["mirror.properties"]
    secrets = OBJECTS["Secret"]["stringData"]
    assert set(re.findall(r"\$\{env:(\w+)\}", text)) == set(secrets)
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "mirror.properties"
    file.write_text(text)
    settings = load(file)
    (ports,) = container()["ports"]
    assert settings.run.metrics_port == ports["containerPort"]
    assert settings.run.metrics_host == "0.0.0.0"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] == ports["name"]


def test_its_parts_belong_together() -> None:
    deployment = OBJECTS["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert pod["terminationGracePeriodSeconds"] > DRAIN_S
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert {each["name"] for each in container()["volumeMounts"]} == set(volumes)
    assert volumes["config"]["configMap"]["name"] == OBJECTS["ConfigMap"]["metadata"]["name"]
    (secret,) = (each["secretRef"]["name"] for each in container()["envFrom"])
    assert secret == OBJECTS["Secret"]["metadata"]["name"]
    command, file = container()["args"]
    assert command in commands()
    (mount,) = (each for each in container()["volumeMounts"] if each["name"] == "config")
    name = Path(file).relative_to(mount["mountPath"]).name
    assert name in OBJECTS["ConfigMap"]["data"]


def image() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with what follows each on one line."""
    from dockerfile_parse import DockerfileParser

    found = DockerfileParser(path=str(KUBERNETES / "Dockerfile"), cache_content=True).structure
    return [(each["instruction"], each["value"]) for each in found]


def of_image(instruction: str) -> list[str]:
    return [value for name, value in image() if name == instruction]


def test_the_image_is_made_of_what_is_here() -> None:
    copies = [line for line in of_image("COPY") if not line.startswith("--from=build ")]
    sources = [name for line in copies for name in line.split()[:-1]]
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []
    assert "python tools/install.py --run" in of_image("RUN")
    ignored = (KUBERNETES / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {each[1:] for each in ignored if each.startswith("!")} == set(sources)


def test_the_image_has_the_environment_of_a_run_alone() -> None:
    """Sources, build tools and what developers need stay in the stage before."""
    names = [(name, value) for name, value in image() if name != "COMMENT"]
    last = max(at for at, (name, _) in enumerate(names) if name == "FROM")
    copied = [value for name, value in names[last:] if name == "COPY"]
    assert copied == ["--from=build /opt/causeway/.venv /opt/causeway/.venv"]
    assert not any("pip" in value for name, value in names[last:] if name == "RUN")
    assert "requirements.lock" not in " ".join(of_image("COPY"))


def test_who_reaches_the_pods_and_what_they_reach() -> None:
    policy = OBJECTS["NetworkPolicy"]["spec"]
    labels = OBJECTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (rule,) = policy["ingress"]
    (port,) = rule["ports"]
    assert port["port"] in [each["name"] for each in container()["ports"]]
    assert rule["from"], "no rule lets everybody in"
    ports = [each["port"] for rule in policy["egress"] for each in rule["ports"]]
    file = OBJECTS["ConfigMap"]["data"]["mirror.properties"]
    brokers = re.findall(r"bootstrap.servers = \S+:(\d+)", file)
    assert ports == [53, 53, 9092]
    assert {int(each) for each in brokers} == {9092}


def test_the_image_runs_under_any_user_id() -> None:
    """As OpenShift runs it: in group 0, with a user id of its own, which no manifest may fix."""
    made = " ".join(of_image("RUN"))
    assert "useradd --uid 1000 --gid 0" in made
    assert "chmod -R g=u /home/causeway" in made
    assert any("HOME=/home/causeway" in line for line in of_image("ENV"))
    for file in KUBERNETES.glob("*.yaml"):
        assert not re.search(r"\b(runAsUser|runAsGroup|fsGroup):", file.read_text()), file.name


def test_the_image_keeps_to_the_rules() -> None:
    """Those of linters that matter for one of this kind."""
    (base,) = of_image("ARG")
    pinned = r"BASE=[a-z0-9./-]+:[a-z0-9.-]*\d[a-z0-9.-]*@sha256:[0-9a-f]{64}"
    assert re.fullmatch(pinned, base), "a version by its digest, not the newest"
    assert of_image("FROM") == ["${BASE} AS build", "${BASE}"]
    for line in of_image("RUN"):
        if "apt-get install" in line:
            assert line.startswith("apt-get update "), "else it takes an older list from the cache"
            assert "-y --no-install-recommends" in line
            assert "rm -rf /var/lib/apt/lists/*" in line
        assert not re.search(r"\b(sudo|curl|wget)\b|\bcd /", line)
    assert of_image("ADD") == []
    assert all(each.startswith("/") for each in of_image("WORKDIR"))
    names = [name for name, _ in image() if name != "COMMENT"]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name == "RUN")
    assert all(each.isdigit() and int(each) > 0 for each in of_image("USER")), "for runAsNonRoot"
    (entry,) = of_image("ENTRYPOINT")
    assert json.loads(entry) == ["causeway"], "as a list, so that signals reach it and no shell"
    for line in of_image("ENV") + of_image("ARG"):
        assert not re.search("password|secret|token|key", line, re.IGNORECASE)
