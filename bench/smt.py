"""MirrorMaker 2 with Kafka's own transformations on JSON.

They work on maps, and a mirror's records are bytes. So a plugin of a few lines, compiled here,
stands before and behind them, with a condition on a field for `Filter`.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

from causeway.errors import CausewayError, PrerequisiteError
from causeway.java import find_java
from tests.harness.kafka.jars import connect_classpath

_SOURCE = Path(__file__).with_name("JsonValue.java")
_NAME = "bench.JsonValue$"
_KAFKAS = "org.apache.kafka.connect.transforms."
_SERVICES = {
    "Transformation": (f"{_NAME}Decode", f"{_NAME}Encode"),
    "predicates.Predicate": (f"{_NAME}FieldIs",),
}


def missing() -> str:
    """Why it cannot be measured here; empty if it can."""
    try:
        find_java("javac")
    except PrerequisiteError as error:
        return str(error)
    return ""


def jar(directory: Path) -> Path:
    """Of the plugin, in `directory`. It belongs on the class path: MirrorMaker 2 does not find a
    condition's class elsewhere."""
    jar, classes = directory / "json-value.jar", directory / "classes"
    if not jar.exists():
        command: list[str | Path] = [
            find_java("javac"),
            "-d",
            classes,
            "-cp",
            connect_classpath(),
            _SOURCE,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CausewayError("compile", str(_SOURCE), done.stderr.strip())
        with zipfile.ZipFile(jar, "w") as archive:
            for file in classes.rglob("*.class"):
                archive.write(file, file.relative_to(classes))
            for kind, names in _SERVICES.items():
                archive.writestr(f"META-INF/services/{_KAFKAS}{kind}", "\n".join(names) + "\n")
    return jar


def dropping(topic: str, field: str, value: str) -> dict[str, str]:
    """Keys of a connector that drop the records of `topic` (its name on the target) that have the
    text `value` in `field`."""
    return {
        "transforms": "drop",
        "transforms.drop.type": f"{_KAFKAS}Filter",
        "transforms.drop.predicate": "wanted",
        "predicates": "wanted",
        "predicates.wanted.type": f"{_NAME}FieldIs",
        "predicates.wanted.topic": topic,
        "predicates.wanted.field": field,
        "predicates.wanted.value": value,
    }


def masking(topic: str, masked: str, dropped: str) -> dict[str, str]:
    """Keys of a connector that put asterisks for one field of the records of `topic`, and leave out
    another."""
    chain: Mapping[str, Mapping[str, str]] = {
        "decode": {"type": f"{_NAME}Decode"},
        "mask": {"type": f"{_KAFKAS}MaskField$Value", "fields": masked, "replacement": "****"},
        "leave": {"type": f"{_KAFKAS}ReplaceField$Value", "exclude": dropped},
        "encode": {"type": f"{_NAME}Encode"},
    }
    keys = {
        "transforms": ",".join(chain),
        "predicates": "ours",
        "predicates.ours.type": f"{_KAFKAS}predicates.TopicNameMatches",
        "predicates.ours.pattern": re.escape(topic),
    }
    for name, settings in chain.items():
        for key, value in {**settings, "predicate": "ours"}.items():  # heartbeats are no JSON
            keys[f"transforms.{name}.{key}"] = value
    return keys
