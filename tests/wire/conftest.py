from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.secured import SecuredCluster


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster("S", tmp_path_factory.mktemp("certificates")) as cluster:
        yield cluster
