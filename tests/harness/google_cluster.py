"""A broker that takes the tokens of Google's handler, on the listener CLIENT (SASL_PLAINTEXT)."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

from causeway.dev import broker_classpath
from causeway.java import find_java
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka.security import Security
from tests.harness.kafka.token_server import TokenServer

_CLASS = "GoogleTokenValidator"
_SOURCE = Path(__file__).parent / "kafka" / "google" / f"{_CLASS}.java"
_PREFIX = "listener.name.client.oauthbearer"


def has_compiler() -> bool:
    """Whether this machine has a JDK. Java's runtime alone cannot compile the broker's part."""
    return _compiler() is not None


def _compiler() -> str | None:
    beside = find_java().with_name("javac")
    return str(beside) if beside.exists() else shutil.which("javac")


def google_cluster(name: str, folder: Path) -> LocalCluster:
    """`folder`: for the class."""
    compiler = _compiler()
    assert compiler is not None
    subprocess.run(
        [compiler, "-cp", broker_classpath(), "-d", str(folder), str(_SOURCE)], check=True
    )
    jar = folder / "validator.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Premain-Class: {_CLASS}\n")
        for file in folder.glob(f"{_CLASS}*.class"):
            archive.write(file, file.name)
    security = Security(
        protocol="SASL_PLAINTEXT", mechanisms=("OAUTHBEARER",), tokens=TokenServer({})
    )
    handler = {f"{_PREFIX}.sasl.server.callback.handler.class": _CLASS}
    cluster = LocalCluster(name, security=security, properties=handler)
    cluster.jvm_options += (f"-javaagent:{jar}",)
    return cluster
