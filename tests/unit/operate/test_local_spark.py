"""The Spark that checks and tries transforms; no JVM starts here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from causeway.config.settings import Secret
from causeway.daemon.spark import context
from causeway.operate.local_spark import local_spark


def test_what_it_puts_on_disk_is_encrypted_whatever_the_file_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records that are tried, and secrets, are in a closure; a large one goes by a file."""
    confs: list[Mapping[str, str | Secret]] = []

    class Spark:
        session = None

        def __init__(self, conf: Mapping[str, str | Secret], *_: object, **__: Any) -> None:
            confs.append(conf)

        def start(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(context, "Spark", Spark)
    for said in ({}, {"spark.io.encryption.enabled": "false"}, {"spark.master": "yarn"}):
        with local_spark(said):
            pass
    assert [conf["spark.io.encryption.enabled"] for conf in confs] == ["true"] * 3
