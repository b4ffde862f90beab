"""The one door for a file of settings, whatever its form."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from causeway.config.settings import Settings


class Form(StrEnum):
    PROPERTIES = "properties"
    CAUSEWAY = "causeway"
    STRIMZI = "strimzi"


def is_yaml(path: Path) -> bool:
    """Whether `path` is read as YAML: by the end of its name."""
    return path.suffix.lower() in (".yaml", ".yml")


def default_form(path: Path) -> Form:
    """What `causeway convert` makes of the file at `path` if nobody says what: of YAML a property
    file, of that a causeway.yaml."""
    return Form.PROPERTIES if is_yaml(path) else Form.CAUSEWAY


def load(path: Path, *, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in `path`: where its name ends so, in causeway.yaml or Strimzi's
    KafkaMirrorMaker2, else in MirrorMaker 2's property file. Raises one ConfigError for all that is
    wrong with it; what is merely without effect stands in `Settings.warnings`. `environment` stands
    in for os.environ."""
    if not is_yaml(path):
        from causeway.config.mm2 import load_mm2

        return load_mm2(path, environment=environment)
    from causeway.config.causeway_yaml import read as causeway_yaml
    from causeway.config.causeway_yaml.document import read_document
    from causeway.config.problems import Problems
    from causeway.config.strimzi import read as strimzi

    problems = Problems(str(path))
    document = read_document(path, problems)
    if strimzi.is_resource(document):
        return strimzi.settings_of(path, document, problems, environment=environment)
    return causeway_yaml.settings_of(path, document, problems, environment=environment)
