"""The one door for a file of settings, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from causeway.config.settings import Settings


def is_yaml(path: Path) -> bool:
    """Whether `path` is read as causeway.yaml: by the end of its name."""
    return path.suffix.lower() in (".yaml", ".yml")


def load(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in `path`: causeway.yaml where its name ends so, else MirrorMaker 2's property
    file. Raises one ConfigError for all that is wrong with it; what is merely without effect stands
    in `Settings.warnings`. `environment` stands in for os.environ."""
    if is_yaml(path):
        from causeway.config.causeway_yaml.read import load_yaml

        return load_yaml(path, environment=environment)
    from causeway.config.mm2 import load_mm2

    return load_mm2(path, environment=environment)
