from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.secured import SecuredCluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster("S", tmp_path_factory.mktemp("certificates"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.destroy()
