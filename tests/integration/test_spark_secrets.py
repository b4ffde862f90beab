"""What a config provider resolved for a spark.* key reaches Spark alone. And Spark obeys only
peers that know its secret.

A Spark of its own is started with its page on. The value is looked for in the arguments of every
process that was started, on Spark's page of its configuration, and in all that it printed.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError

from causeway.daemon.spark import Spark
from causeway.formats import load_mm2
from causeway.relay import new_secret

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


def all_arguments() -> list[str]:
    """Of all processes that this one has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # one that has just ended
            found.append(" ".join(process.cmdline()))
    return found


def environment_page(context: Any) -> str:
    shown = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/environment"
    with urllib.request.urlopen(shown) as page:
        return bytes(page.read()).decode()


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
        arguments = all_arguments()
        assert any("-Xmx600m" in line for line in arguments), "what is for the JVM reached it"
        assert PLANTED not in str(arguments)
        assert "Plain-Old-Key" not in str(arguments)
        context = spark._context
        assert context.getConf().get("spark.causeway.note") == PLANTED
        content = environment_page(context)
        assert "spark.causeway.note" in content
        assert PLANTED not in content
        context._jvm.java.lang.System.err.println(f"ERROR what is {PLANTED}?")
        spark.rehearse()
    finally:
        spark.stop()
    assert "ERROR what is ********?" in caplog.text
    assert PLANTED not in caplog.text + repr(settings) + str(spark.death)


@contextmanager
def spark_of(**conf: str) -> Iterator[Spark]:
    shown = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    spark = Spark({**shown, **conf}, 1, new_secret(), on_lane_ended=lambda *_: None)
    try:
        spark.start()
        yield spark
    finally:
        spark.stop()


def stop_executor(spark: Spark) -> bool:
    """Sends StopExecutor to the driver's port, as another user of the machine may, who knows no
    secret. Raises Py4JJavaError if Spark refuses the peer."""
    jvm = spark._context._jvm

    def scala_object(name: str) -> Any:
        return jvm.java.lang.Class.forName(f"{name}$").getField("MODULE$").get(None)

    port = int(spark._context.getConf().get("spark.driver.port"))
    conf = jvm.org.apache.spark.SparkConf(False)  # without the driver's settings and secret
    nowhere = scala_object("org.apache.spark.internal.config.package").AUTH_SECRET_FILE()
    stranger = jvm.org.apache.spark.SecurityManager(conf, jvm.scala.Option.apply(None), nowhere)
    peer = jvm.org.apache.spark.rpc.RpcEnv.create("peer", "127.0.0.1", 0, conf, stranger, True)
    try:
        driver = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", port)
        endpoint = peer.setupEndpointRef(driver, "LocalSchedulerBackendEndpoint")
        stop = scala_object("org.apache.spark.scheduler.local.StopExecutor")
        return bool(endpoint.askSync(stop, jvm.scala.reflect.ClassTag.Any()))
    finally:
        peer.shutdown()


def test_no_peer_without_the_secret_can_stop_a_local_spark() -> None:
    with spark_of() as spark:
        with pytest.raises(Py4JJavaError, match="Expected SaslMessage"):
            stop_executor(spark)
        spark.rehearse()
        users = spark._context._jvm.org.apache.hadoop.security.UserGroupInformation
        key = spark._context._jvm.org.apache.hadoop.io.Text("sparkCookie")
        secret = bytes(users.getCurrentUser().getCredentials().getSecretKey(key)).decode()
        assert len(secret) >= 32
        assert not [line for line in all_arguments() if secret in line]
        content = environment_page(spark._context)
        assert secret not in content
        assert ["spark.authenticate", "true"] in json.loads(content)["sparkProperties"]


def test_a_spark_that_authenticates_nobody_is_stopped_by_anybody() -> None:
    """The other test knocks at the right door."""
    with spark_of(**{"spark.authenticate": "false"}) as spark:
        assert stop_executor(spark)
