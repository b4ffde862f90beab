"""`--secrets DIR` is understood wherever it stands on the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.cli.main import main

FILE = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
spec:
  target:
    alias: b
    bootstrapServers: b:1
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
    authentication:
      type: plain
      username: u
      passwordSecret: {secretName: login, password: word}
  mirrors:
    - source: {alias: a, bootstrapServers: "a:1"}
      sourceConnector: {}
"""


@pytest.mark.parametrize(
    "line", ["pause --secrets {0} {1}", "pause {1} --secrets {0}", "--secrets={0} pause {1}"]
)
def test_it_may_stand_anywhere(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAUSEWAY_SECRETS", "")  # so that it is put back
    file = tmp_path / "mirror.yaml"
    file.write_text(FILE)
    with pytest.raises(SystemExit) as ended:
        main(line.format(tmp_path / "none", file).split())
    assert ended.value.code == 2
    assert f"--secrets {tmp_path / 'none'} is no directory" in capsys.readouterr().err


def test_without_a_value_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pause", str(tmp_path / "mirror.yaml"), "--secrets"])
    assert ended.value.code == 2
    assert "--secrets" in capsys.readouterr().err
