"""The wheels, installed as people install them, far from their sources: local clusters, a mirror
between them, its page, its manual; and the producer, without Causeway."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from causeway import __version__
from causeway.dev import cache_directory, spawn
from causeway.formats import read_properties
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S
from tests.harness.waiting import await_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
INSTALL_S = 600


class Machine:
    """A folder with a `uv tool` of its own, and nothing of this checkout on any path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        ours = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ours},
            "UV_TOOL_DIR": str(self.tools),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(cache_directory().parent),
            "TERM": "dumb",
        }
        self.causeway = str(folder / "bin" / "causeway")

    def install(self) -> None:
        build = ["hatchling", "build", "-t", "wheel", "-d", str(self.folder)]
        subprocess.run([sys.executable, "-m", *build], cwd=ROOT, check=True, capture_output=True)
        (wheel,) = self.folder.glob("*.whl")
        words = [sys.executable, "-m", "uv", "tool", "install", "--python", sys.executable]
        self.shell(*words, "--constraints", str(ROOT / "requirements.lock"), str(wheel))

    def shell(self, *words: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    found = Machine(tmp_path)
    found.install()
    yield found
    found.shell(found.causeway, "dev", "down")


def get(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def serves(address: str) -> bool:
    try:
        return bool(get(address))
    except OSError:
        return False


def test_an_installed_wheel_mirrors_and_shows_it(machine: Machine, port: int) -> None:
    causeway, folder = machine.causeway, machine.folder
    assert machine.shell(causeway, "--version").startswith("causeway ")
    assert str(folder) in (folder / "bin" / "causeway").resolve().read_text()
    assert (machine.tools / "causeway" / "share" / "man" / "man1" / "causeway.1").is_file()
    assert (folder / "bin" / "kafka-mirror-maker").exists()

    python = str(machine.tools / "causeway" / "bin" / "python")
    program = "from causeway.extras import install_extra; print(install_extra('tokenise'))"
    uv, *words = shlex.split(machine.shell(python, "-c", program))
    assert uv == "uv"
    machine.shell(sys.executable, "-m", "uv", *words)
    machine.shell(python, "-c", "import fastfpe")

    machine.shell(causeway, "dev", "up", "--file", "mm2.properties")
    machine.shell(causeway, "dev", "produce", "orders", "--records", "300")
    file = folder / "mm2.properties"
    file.write_text(file.read_text() + f"\ncauseway.http.port = {port}\n")
    assert "A.orders" in machine.shell(causeway, "plan", str(file))
    target = KafkaTools(read_properties(file).entries["B.bootstrap.servers"].value)

    log = folder / "run.log"
    run = spawn([causeway, "run", str(file)], output=log, environment=machine.environment)
    try:
        home = f"http://127.0.0.1:{port}/page/"
        await_until(lambda: serves(home), PATIENCE_S, "the page")
        for name in re.findall(r'(?:src|href)="([^"]+)"', get(home)):
            assert get(home + name)
        assert "/api/v1" in get(f"http://127.0.0.1:{port}/openapi.json")
        await_until(lambda: "A.orders" in target.topics(), PATIENCE_S, "the mirror")
        await_until(
            lambda: sum(map(len, target.read("A.orders").values())) == 300,
            PATIENCE_S,
            "its records",
        )
        run.send(signal.SIGINT)
        assert run.wait(PATIENCE_S)
        assert run.exit_code == 0, log.read_text()
    finally:
        run.kill()


def test_the_producer_s_wheel_brings_confluent_kafka_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT / "producer", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("causeway_producer-*.whl")
    python = str(tmp_path / "venv" / "bin" / "python")

    def uv(*words: str) -> str:
        command = [sys.executable, "-m", "uv", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
        return done.stdout

    uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    constraints = str(ROOT / "requirements.lock")
    uv("pip", "install", "--python", python, "--constraints", constraints, str(wheel))
    installed = uv("pip", "freeze", "--python", python).splitlines()
    assert sorted(re.split("[=@ ]", each)[0] for each in installed) == [
        "causeway-producer",
        "confluent-kafka",
    ]
    program = "import causeway_producer as it; print(it.DualProducer.__name__, it.__version__)"
    words = [python, "-c", program]
    said = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert said.split() == ["DualProducer", __version__]
    program = (
        "from causeway_producer import DualProducer\n"
        "sides = [{'bootstrap.servers': side, 'sasl.mechanism': 'AWS_MSK_IAM'} for side in 'ab']\n"
        "try: DualProducer(*sides, spool='spool')\n"
        "except Exception as error: print(error)\n"
    )
    words = [python, "-c", program]
    said = subprocess.run(words, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert "AWS_MSK_IAM is a login of Causeway, and the package causeway is not installed" in said
    assert "`make wheel` in a clone of Causeway, then pip install dist/causeway-*.whl" in said
