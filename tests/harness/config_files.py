"""Files of a link with a login, and their environment."""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.pems import make_certificate, make_pem

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


ENVIRONMENT = {name: f"{name.lower()}:1" for name in "ABC"} | {"WORD": "letmein", "NUMBER": "7"}


def write(path: Path, text: str) -> None:
    """As what writes Secrets does: another file takes its place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def mirror(folder: Path) -> Path:
    (folder / "ca.pem").write_text(make_certificate("ca").cert_pem)
    (folder / "own.pem").write_text("".join(make_pem()))
    (folder / "password").write_text("first")
    (folder / "more.properties").write_text("user=me\n")
    file = folder / "mm2.properties"
    file.write_text(
        f"""
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = {LOGIN} username="${{file:{folder}/more.properties:user}}" \\
  password="${{dir:{folder}:password}}";
A.ssl.truststore.type = PEM
A.ssl.truststore.location = {folder}/ca.pem
A.ssl.keystore.type = PEM
A.ssl.keystore.location = {folder}/own.pem
"""
    )
    return file


TWO_CLUSTERS = """\
clusters = A, B
A->B.enabled = true
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
"""
