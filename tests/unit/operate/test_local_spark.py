"""The Spark that checks and tries transforms; no JVM starts here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from causeway.config import Secret
from causeway.daemon import spark
from causeway.operate.try_transform import local_spark


def test_sample_records_are_never_sent_unencrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They, and secrets, are in a closure; a large one goes by a file. What a query throws on a
    record quotes it: in Spark's log, on its pages, in its event log."""
    confs: list[Mapping[str, str | Secret]] = []

    class Spark:
        session = None

        def __init__(self, conf: Mapping[str, str | Secret], *_: object, **__: Any) -> None:
            confs.append(conf)

        def start(self) -> None: ...

        def stop(self) -> None: ...

    monkeypatch.setattr(spark, "Spark", Spark)
    loud = {
        "spark.io.encryption.enabled": "false",
        "spark.log.level": "ALL",
        "spark.eventLog.enabled": "true",
        "spark.ui.enabled": "true",
    }
    for said in ({}, loud, {"spark.master": "yarn"}):
        with local_spark(said):
            pass
    assert len(confs) == 3
    for conf in confs:
        assert conf["spark.io.encryption.enabled"] == "true"
        assert conf["spark.log.level"] == "OFF"
        assert conf["spark.eventLog.enabled"] == conf["spark.ui.enabled"] == "false"
