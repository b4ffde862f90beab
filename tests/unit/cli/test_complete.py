"""What a shell is offered, by the very calls that its script makes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROPERTIES = """clusters = A, B, C
A.bootstrap.servers = a:1
A->B.enabled = true
A->B.sync.group.offsets.enabled = true
A->C.enabled = ${env:NOT_SET}
B->A.enabled = true
B->C.enabled = false
"""
YAML = """clusters:
  A: {bootstrap: [a:1]}
  B: {bootstrap: [b:1]}
links:
  - {from: A, to: B}
"""

RESOURCE = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
spec:
  connectCluster: B
  clusters:
    - {alias: A, bootstrapServers: "a:1"}
    - alias: B
      bootstrapServers: b:1
      tls: {trustedCertificates: [{secretName: ca, pattern: "*.crt"}]}
  mirrors:
    - {sourceCluster: A, targetCluster: B, sourceConnector: {}}
"""


def offered(*words: str, shell: str = "bash") -> list[str]:
    environment = {
        **os.environ,
        "_CAUSEWAY_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    ran = subprocess.run(
        [Path(sys.executable).with_name("causeway")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_commands_and_options_have_their_names() -> None:
    assert offered("causeway", "expl") == ["explain"]
    assert offered("causeway", "wait", "--lag") == ["--lag-below"]


@pytest.mark.parametrize(
    ("name", "text", "links"),
    [
        ("mm2.properties", PROPERTIES, [r"A-\>B", r"B-\>A"]),
        ("causeway.yaml", YAML, [r"A-\>B"]),
        ("mirror.yaml", RESOURCE, [r"A-\>B"]),
        ("broken.yaml", "clusters: [", []),
    ],
)
def test_links_are_those_that_the_file_enables(
    tmp_path: Path, name: str, text: str, links: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(text)

    assert offered("causeway", "pause", str(file), "--link", "") == links
    assert offered("causeway", "pause", str(file), "--link", "B") == [
        each for each in links if each.startswith("B")
    ]


def test_a_shell_that_quotes_by_itself_gets_the_bare_name(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES)
    assert offered("causeway", "pause", str(file), "--link", "A", shell="fish") == ["A->B"]
