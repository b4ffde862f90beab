"""`causeway run` under a user id without an account, beside modules of the same names as
libraries, and on a machine with another Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.command import command_environment
from tests.harness.kafka.cluster import LocalCluster
from tests.harness.kafka_tools import KafkaTools
from tests.harness.running import PATIENCE_S, assert_same, mm2_file

pytestmark = pytest.mark.integration

# As OpenShift does it. The capability only lets the user read this Python, wherever it lies.
_UID = 1_000_770_000
_AS_ANY_USER = (
    *("setpriv", f"--reuid={_UID}", "--regid=0", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)


def _can_be_any_user() -> bool:
    if shutil.which("setpriv") is None:
        return False
    probe = [*_AS_ANY_USER, sys.executable, "-c", ""]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def run(
    file: Path, *, before: tuple[str, ...] = (), folder: Path, environment: dict[str, str | None]
) -> str:
    """To the end, in `folder`; what it says."""
    merged: dict[str, str | None] = {**command_environment(), **environment}
    done = subprocess.run(
        [
            *before,
            Path(sys.executable).with_name("causeway"),
            "run",
            "--until-caught-up",
            file,
        ],
        cwd=folder,
        env={name: value for name, value in merged.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user may read: pytest's own are this user's alone."""
    with tempfile.TemporaryDirectory(prefix="causeway-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not _can_be_any_user(), reason="needs the rights to be any user")
def test_a_user_id_without_an_account(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    open_folder: Path,
) -> None:
    """It copies, also through SQL, whose session logs in to Hadoop; in a folder where it may not
    write, and with such a home."""
    plain, loud = f"{prefix}plain", f"{prefix}loud"
    source.create_topics([plain, loud])
    source.produce(plain, [b"%d" % n for n in range(100)])
    source.produce(loud, [b"v%d" % n for n in range(100)])
    file = mm2_file(
        open_folder,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
        "A->B.causeway.transforms = loud",
        f"A->B.causeway.transform.loud.topics = {loud}",
        "A->B.causeway.transform.loud.value.format = string",
        "A->B.causeway.transform.loud.sql = SELECT reverse(value) AS value FROM records",
    )

    run(
        file,
        before=_AS_ANY_USER,
        folder=Path("/"),
        environment={
            **dict.fromkeys(("XDG_CACHE_HOME", "USER", "LOGNAME", "SPARK_USER"), None),
            "HOME": "/",
        },
    )

    assert_same(source, plain, target, f"A.{plain}")
    assert [record.value for record in target.read(f"A.{loud}")[0]] == [
        f"v{n}"[::-1].encode() for n in range(100)
    ]


@pytest.mark.timeout(1200)
def test_modules_in_the_working_directory_and_another_spark(
    source: KafkaTools,
    target: KafkaTools,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    prefix: str,
    tmp_path: Path,
) -> None:
    """Neither takes the place of the libraries and of the Spark that were installed."""
    topic = f"{prefix}t"
    source.create_topic(topic)
    source.produce(topic, [b"%d" % n for n in range(100)])
    file = mm2_file(
        tmp_path,
        {"A": source_cluster, "B": target_cluster},
        "A->B.enabled = true",
        f"topics = {prefix}.*",
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    for module in ("kafka", "token", "socket", "json"):
        (folder / f"{module}.py").write_text("raise ImportError('this one is not the library')\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "spark-defaults.conf").write_text("spark.master yarn\nspark.jars /no/such.jar\n")
    (elsewhere / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name>"
        "<value>kerberos</value></property></configuration>"
    )
    variables: dict[str, str | None] = {
        "SPARK_HOME": str(elsewhere),
        "SPARK_CONF_DIR": str(elsewhere),
        "HADOOP_CONF_DIR": str(elsewhere),
        "YARN_CONF_DIR": str(elsewhere),
        "PYSPARK_SUBMIT_ARGS": "--master yarn --deploy-mode cluster pyspark-shell",
        "PYSPARK_PYTHON": "/no/such/python",
        "PYSPARK_DRIVER_PYTHON": "jupyter",
        "SPARK_LOCAL_IP": "192.0.2.1",
        "SPARK_REMOTE": "sc://192.0.2.1",
    }

    said = run(file, folder=folder, environment=variables)

    assert_same(source, topic, target, f"A.{topic}")
    (line,) = [line for line in said.splitlines() if "environment variables ignored" in line]
    assert all(name in line for name in variables), line
