"""The codec of batches, from each form of a file, by MirrorMaker 2's own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from causeway.config import LinkSettings
from causeway.errors import ConfigError
from causeway.formats import load, load_mm1

PLAIN = """\
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
"""


def _link(
    tmp_path: Path, *lines: str, name: str = "mm2.properties", text: str = ""
) -> LinkSettings:
    file = tmp_path / name
    file.write_text(text or PLAIN + "\n".join(lines) + "\n")
    (link,) = load(file).links
    return link


def test_by_default_batches_keep_their_codec(tmp_path: Path) -> None:
    link = _link(tmp_path)
    assert (link.target.compression_type, link.recompress) == ("none", "uncompressed")


@pytest.mark.parametrize(
    "prefix",
    [
        "B.producer.",
        "A->B.producer.",
        "A->B.target.producer.",
        "producer.override.",
        "A->B.producer.override.",
    ],
)
def test_each_place_that_mirror_maker_2_reads(tmp_path: Path, prefix: str) -> None:
    link = _link(
        tmp_path,
        f"{prefix}compression.type = zstd",
        f"{prefix}compression.zstd.level = -7",
        f"{prefix}compression.lz4.level = 17",
        f"{prefix}compression.gzip.level = 9",
    )
    target = link.target
    assert (target.compression_type, target.zstd_level) == ("zstd", -7)
    assert (target.lz4_level, target.gzip_level) == (17, 9)
    assert link.target_admin.compression_type == "none"


@pytest.mark.parametrize(
    "line",
    [
        "A.producer.compression.type = zstd",
        "A->B.source.producer.compression.type = zstd",
        "producer.compression.type = zstd",
        "compression.type = zstd",
        "B.consumer.compression.type = zstd",
    ],
)
def test_no_other_place_counts(tmp_path: Path, line: str) -> None:
    assert _link(tmp_path, line).target.compression_type == "none"


@pytest.mark.parametrize("word", ["none", "producer", "GZIP", "snappy", "lz4", "zstd"])
def test_the_words(tmp_path: Path, word: str) -> None:
    link = _link(tmp_path, f"B.producer.compression.type = {word}", "causeway.recompress = always")
    assert (link.target.compression_type, link.recompress) == (word.lower(), "always")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("B.producer.compression.type = brotli", "'gzip'"),
        ("B.producer.compression.gzip.level = 10", "1 to 9, or -1"),
        ("B.producer.compression.lz4.level = 0", "1 to 17"),
        ("B.producer.compression.zstd.level = 23", "-131072 to 22"),
        ("causeway.recompress = sometimes", "'always'"),
    ],
)
def test_what_kafka_would_refuse_is_refused(tmp_path: Path, line: str, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _link(tmp_path, line)
    assert line.partition(" ")[0] in str(refused.value)
    assert expected in str(refused.value)


def test_causeway_yaml(tmp_path: Path) -> None:
    text = """\
clusters:
  A: {bootstrap: "127.0.0.1:1"}
  B:
    bootstrap: "127.0.0.1:2"
    producer: {compression.type: lz4, compression.lz4.level: 3}
links:
  - {from: A, to: B, recompress: always}
"""
    link = _link(tmp_path, name="causeway.yaml", text=text)
    assert (link.target.compression_type, link.target.lz4_level) == ("lz4", 3)
    assert link.recompress == "always"


def test_strimzi(tmp_path: Path) -> None:
    text = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  replicas: 1
  connectCluster: "B"
  clusters:
    - alias: "A"
      bootstrapServers: 127.0.0.1:1
    - alias: "B"
      bootstrapServers: 127.0.0.1:2
  mirrors:
    - sourceCluster: "A"
      targetCluster: "B"
      topicsPattern: ".*"
      sourceConnector:
        config:
          producer.override.compression.type: zstd
          producer.override.compression.zstd.level: 9
"""
    link = _link(tmp_path, name="mirror.yaml", text=text)
    assert (link.target.compression_type, link.target.zstd_level) == ("zstd", 9)


def test_the_producers_file_of_mirror_maker_1(tmp_path: Path) -> None:
    consumer, producer = tmp_path / "c.properties", tmp_path / "p.properties"
    consumer.write_text("bootstrap.servers = 127.0.0.1:1\ngroup.id = mirror\n")
    producer.write_text(
        "bootstrap.servers = 127.0.0.1:2\ncompression.type = gzip\ncauseway.recompress = never\n"
    )
    settings = load_mm1([consumer], producer, ".*")
    (link,) = settings.links
    assert (link.target.compression_type, link.recompress) == ("gzip", "never")
    assert not settings.warnings
