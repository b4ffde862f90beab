"""What a figure depends on: the machine, the versions, the commit."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil

from causeway.dev import kafka_version
from causeway.java import find_java

_ROOT = Path(__file__).parents[1]


def describe() -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Kafka and MirrorMaker": str(kafka_version()),
        "Java": _java(),
        "Python": platform.python_version(),
        "PySpark": version("pyspark"),
        "librdkafka": version("confluent-kafka"),
    }


def commit() -> str:
    """The commit's short name, with `+` if files differ from it; `unknown` outside of git."""
    name = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "bench")
    return f"{name}+" if name and changed else name or "unknown"


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _java() -> str:
    done = subprocess.run(
        [str(find_java()), "-version"], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return found[1] if found else "unknown"
