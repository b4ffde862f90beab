"""A real schema registry: Apicurio, with the API of Confluent's, its schemas in memory.

Fetched once, as Kafka's jars are, into <cache>/causeway/apicurio/<version>.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from causeway.config import RegistrySettings
from causeway.dev import Ports, cache_directory, locked
from causeway.dev.artifacts import _ivy_jar
from causeway.java import find_java
from tests.harness.waiting import await_until

VERSION = "2.6.13.Final"
_NAME = "apicurio-registry-app"
_SHA512 = (
    "11d36e7340ed8d6218755a66d3ff38fe6e9c9bd9c723eae9da131d0e1811d4d1"
    "205fd2c3da4ec052f1a1933e07d96a072ad2c620ab0854db75ef3cb5b62ee40f"
)


def _as_it_is(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo:
    return member


def installed() -> Path:
    """Its folder in the cache."""
    root = cache_directory() / "apicurio"
    folder = root / VERSION
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / ".lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=root, prefix=".fetching-") as temporary:
                archive = _fetch(Path(temporary))
                assert hashlib.sha512(archive.read_bytes()).hexdigest() == _SHA512
                with tarfile.open(archive) as packed:
                    # Python before 3.11.4 has no filters; the checksum says what it unpacks.
                    packed.extraction_filter = getattr(tarfile, "data_filter", _as_it_is)
                    packed.extractall(Path(temporary) / "app")
                (Path(temporary) / "app").rename(folder)
    return folder


def _fetch(folder: Path) -> Path:
    recipe = folder / "ivy.xml"
    recipe.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="causeway" module="apicurio"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        f'<dependency org="io.apicurio" name="{_NAME}" rev="{VERSION}" transitive="false"'
        f' conf="default->master"><artifact name="{_NAME}" type="tar.gz" ext="tar.gz"'
        ' m:classifier="all"/></dependency></dependencies></ivy-module>'
    )
    words = [
        *(str(find_java()), "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-ivy", str(recipe)),
        *("-cache", str(cache_directory() / "ivy"), "-types", "tar.gz"),
        *("-retrieve", str(folder / "[artifact]-[revision].[ext]")),
    ]
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return folder / f"{_NAME}-{VERSION}.tar.gz"


class RegistryServer:
    """Runs until it is closed."""

    def __init__(self, log: Path) -> None:
        self._ports = Ports()
        self.port = self._ports.take()
        self.path = "/apis/ccompat/v7"
        self.url = f"http://127.0.0.1:{self.port}{self.path}"
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        quarkus = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        jar = f"{_NAME}-{VERSION}-runner.jar"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [str(find_java()), *options, *quarkus, "-jar", jar],
                cwd=installed(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        await_until(self._answers, 120, "the registry answers")

    @property
    def settings(self) -> RegistrySettings:
        return RegistrySettings(url=self.url, timeout_ms=30_000)

    def register(
        self,
        subject: str,
        schema: str | dict[str, Any],
        kind: str = "AVRO",
        references: Sequence[dict[str, Any]] = (),
    ) -> int:
        """The id of the schema, a new version of `subject` if it is new there."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.loads(answer.read())["id"])

    def freeze(self) -> None:
        """From now on it answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.thaw()
        self._process.kill()
        self._process.wait()
        self._ports.release()

    def _answers(self) -> bool:
        assert self._process.poll() is None
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False
