"""What a config provider resolved for a spark.* key reaches Spark, and nobody else.

A Spark of its own is started with its page on. The value is looked for in the arguments of every
process that was started, on Spark's page of its configuration, and in all that it printed.
"""

from __future__ import annotations

import logging
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from causeway.config.mm2 import load_mm2
from causeway.daemon.spark.context import Spark
from causeway.relay.control import new_secret

pytestmark = pytest.mark.integration

PLANTED = "Tw3lve-Zebras"
FILE = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
spark.causeway.note = ${env:PLANTED}
spark.hadoop.fs.s3a.access.key = Plain-Old-Key-in-the-file
spark.driver.memory = 600m
spark.ui.enabled = true
spark.ui.port = 0
"""


def test_a_resolved_value_is_in_no_argument_page_or_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mm2.properties").write_text(FILE)
    settings = load_mm2(tmp_path / "mm2.properties", environment={"PLANTED": PLANTED})
    caplog.set_level(logging.DEBUG, "causeway.spark")
    reasons: list[str] = []
    spark = Spark(
        settings.spark, 1, new_secret(), on_lane_ended=lambda _, reason, __: reasons.append(reason)
    )
    try:
        spark.start()
        arguments = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # one that has just ended
                arguments.append(" ".join(process.cmdline()))
        assert any("-Xmx600m" in line for line in arguments), "what is for the JVM reached it"
        assert PLANTED not in str(arguments)
        assert "Plain-Old-Key" not in str(arguments)
        context = spark._context
        assert context.getConf().get("spark.causeway.note") == PLANTED
        shown = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
        with urllib.request.urlopen(shown) as page:
            content = page.read().decode()
        assert "spark.causeway.note" in content
        assert PLANTED not in content
        context._jvm.java.lang.System.err.println(f"ERROR what is {PLANTED}?")
        spark.rehearse()
    finally:
        spark.stop()
    assert "ERROR what is ********?" in caplog.text
    assert PLANTED not in caplog.text + repr(settings) + str(spark.death)
