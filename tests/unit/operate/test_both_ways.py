"""What both clusters write under one name is not promoted, nor cut over."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from causeway.config.load import load
from causeway.control.directives import Scope
from causeway.errors import ConfigError
from causeway.operate.moves.ending import Ending

FILE = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
B->A.enabled = true
replication.policy.class = IdentityReplicationPolicy
causeway.provenance = header
"""


def test_its_mirrors_do_not_end(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    link, _ = load(path, environment={}).links

    def nobody(*_: Any, **__: Any) -> Any:
        raise AssertionError("no cluster is asked")

    with pytest.raises(ConfigError, match=r"both clusters write its topics.*provenance\.md"):
        Ending(link, Scope(), cast(Any, nobody), 10.0, lambda _: None)
