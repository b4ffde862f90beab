"""What is told to Spark, and what is made of its failures; no JVM starts here."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from causeway.daemon.spark import context as spark
from causeway.daemon.spark import environment
from causeway.errors import ConfigError, PrerequisiteError
from causeway.relay import SECRET_VARIABLE

_NO_ACCOUNT = 1_000_770_000  # as OpenShift makes them


@pytest.mark.parametrize(
    ("conf", "lanes", "wanted"),
    [
        ({"spark.master": "local[3]"}, None, 3),
        ({"spark.master": "local[3, 2]"}, None, 3),
        ({"spark.master": "local"}, None, 1),
        ({"spark.master": "local[3]"}, 8, 8),
        ({"spark.master": "spark://h:7077"}, None, None),
        ({"spark.master": "yarn"}, 8, 8),
    ],
)
def test_lanes_follow_the_file_or_the_local_cores(
    conf: dict[str, str], lanes: int | None, wanted: int | None
) -> None:
    assert environment.wanted_lanes(conf, lanes) == wanted


@pytest.mark.parametrize("conf", [{}, {"spark.master": "local[*]"}, {"spark.master": "local[*,4]"}])
@pytest.mark.parametrize(
    ("cores", "least", "wanted"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (8, 1, 4), (2, 2, 2), (2, 8, 2)]
)
def test_else_there_is_a_lane_for_two_cores_or_as_many_as_a_transform_wants(
    monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], cores: int, least: int, wanted: int
) -> None:
    monkeypatch.setattr(environment, "cores", lambda: cores)
    assert environment.wanted_lanes(conf, None, least) == wanted
    assert environment.wanted_lanes(conf, 8, least) == 8
    assert environment.wanted_lanes({"spark.master": "local[3]"}, None, least) == 3
    assert environment.cores_of(conf) == cores


def test_a_local_master_has_a_slot_for_every_lane_and_no_secret() -> None:
    conf = environment.complete({"spark.master": "local[2]"}, 8, "the key")
    assert conf["spark.master"] == "local[8]"
    assert (
        environment.complete({"spark.master": "local[2, 5]"}, 8, "k")["spark.master"]
        == "local[8,5]"
    )
    assert "the key" not in conf.values()
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.speculation"] == "false"


def test_the_file_wins_over_our_defaults() -> None:
    conf = environment.complete({"spark.ui.enabled": "true", "spark.driver.memory": "2g"}, 1, "k")
    assert (conf["spark.ui.enabled"], conf["spark.driver.memory"]) == ("true", "2g")


@pytest.mark.parametrize(
    ("master", "staged", "said", "wanted"),
    [
        ("local[*]", 0, {}, "true"),
        ("local[*]", 1, {}, "true"),
        ("local", 0, {"spark.authenticate": "false"}, "false"),
        ("spark://h:7077", 0, {}, None),  # its masters and workers must know the secret, too
        ("spark://h:7077", 0, {"spark.authenticate": "true"}, "true"),
    ],
)
def test_a_local_master_authenticates_unless_the_file_says_otherwise(
    master: str, staged: int, said: dict[str, str], wanted: str | None
) -> None:
    conf = environment.complete({"spark.master": master, **said}, 1, "k", staged)
    assert conf.get("spark.authenticate") == wanted
    assert "spark.authenticate.secret" not in conf


def test_executors_get_the_key_under_a_name_that_spark_redacts() -> None:
    conf = environment.complete({"spark.master": "spark://h:7077"}, 1, "the key")
    (name,) = [name for name, value in conf.items() if value == "the key"]
    assert name == f"spark.executorEnv.{SECRET_VARIABLE}"
    assert re.search(spark._REDACTED, name)


def test_lanes_leave_the_cores_of_a_cluster_that_stages_need() -> None:
    conf = {"spark.master": "spark://h:7077"}
    for cores, staged, lanes in ((8, 0, 8), (8, 2, 6), (2, 2, 1)):
        one = spark.Spark(conf, None, "k", on_lane_ended=lambda *_: None, staged=staged)
        one._context = SimpleNamespace(defaultParallelism=cores)
        assert one.lanes == lanes


def test_a_cluster_with_too_few_cores_for_stages_is_refused() -> None:
    conf = {"spark.master": "spark://h:7077", "spark.cores.max": "8"}
    spark.Spark(conf, 8, "k", on_lane_ended=lambda *_: None)
    spark.Spark(conf, 6, "k", on_lane_ended=lambda *_: None, staged=2)
    with pytest.raises(ConfigError, match=r"spark\.cores\.max.*8 cores are too few"):
        spark.Spark(conf, 7, "k", on_lane_ended=lambda *_: None, staged=2)


KILLED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException"""
LOST = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 0.0 (TID 1) (10.0.0.7 executor 0): \
ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: worker lost
Driver stacktrace:"""
RAISED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 2.0 (TID 2) (h executor 1): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    run_lane()
ConnectionRefusedError: [Errno 111] Connection refused
\tat org.apache.spark.api.python.BasePythonRunner"""
STOPPED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.readRDD.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (KILLED, "Python worker exited unexpectedly (crashed)"),
        (
            LOST,
            "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: "
            "worker lost",
        ),
        (RAISED, "ConnectionRefusedError: [Errno 111] Connection refused"),
        (STOPPED, "Cannot call methods on a stopped SparkContext."),
        ("", "RuntimeError"),
    ],
)
def test_a_failed_job_is_reported_with_its_cause(text: str, cause: str) -> None:
    assert spark.explain(RuntimeError(text)) == cause


def test_executors_without_the_package_have_their_own_message() -> None:
    text = RAISED.replace("ConnectionRefusedError: [Errno 111] Connection refused", "{}")
    reason = spark.explain(
        RuntimeError(text.format("ModuleNotFoundError: No module named 'causeway'"))
    )
    error = spark.not_importable(f"lane 0 ended: {reason}")
    assert isinstance(error, PrerequisiteError)
    assert "cannot import causeway" in str(error)
    assert "docs/how-to/spark.md" in str(error)
    assert spark.not_importable("lane 0 ended: it was killed") is None


def home(at: Path, *, release: str | None = None, says: str = "") -> Path:
    """A Java home whose java prints `says`, for want of a `release` file."""
    (at / "bin").mkdir(parents=True)
    program = at / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (at / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return at


def test_a_class_data_archive_is_used_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "17", release="17.0.15")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert environment.archive_option() == ""
    environment.archive_path().parent.mkdir(parents=True)
    environment.archive_path().touch()
    assert environment.archive_option() == f' "-XX:SharedArchiveFile={environment.archive_path()}"'
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path / "21", release="21.0.2")))
    assert environment.archive_option() == ""


def test_a_user_without_an_account_gets_a_name_and_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {"HOME": str(tmp_path)})
    assert environment.missing_account() is None
    monkeypatch.setattr("os.getuid", lambda: _NO_ACCOUNT)
    found = environment.missing_account()
    assert found is not None
    assert (found.name, found.home) == ("causeway", str(tmp_path))
    for home in ({}, {"HOME": ""}, {"HOME": "?"}, {"HOME": str(tmp_path / "none")}):
        monkeypatch.setattr("os.environ", {**home, "HADOOP_USER_NAME": "etl"})
        found = environment.missing_account()
        assert found is not None
        assert (found.name, found.home) == ("etl", tempfile.gettempdir())
    found.set_environment()
    assert os.environ == {
        "HOME": found.home,
        "SPARK_USER": "etl",
        "HADOOP_USER_NAME": "etl",
    }


def test_a_local_master_gets_no_variable_of_another_spark(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    variables = {"SPARK_HOME": "/opt/spark", "PYSPARK_PYTHON": "python2", "JAVA_HOME": "/opt/java"}
    monkeypatch.setattr("os.environ", variables)
    caplog.set_level("INFO", "causeway")
    environment.prepare_local("the key")
    environment.prepare_local("another key")
    assert "SPARK_HOME" not in variables
    assert variables["PYSPARK_PYTHON"] == sys.executable
    assert variables["JAVA_HOME"] == "/opt/java"
    assert variables["PYTHONSAFEPATH"] == "1"
    assert variables[SECRET_VARIABLE] == "another key"
    (record,) = caplog.records
    assert vars(record)["variables"] == "SPARK_HOME, PYSPARK_PYTHON"
