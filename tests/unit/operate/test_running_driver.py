"""A command asks a running driver over HTTP: what it learns, and what it says if it cannot."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from causeway.config import HttpSettings, RunSettings, Secret, Settings, changed_rows, rows_of
from causeway.errors import (
    AuthenticationError,
    CausewayError,
    ConfigError,
    NobodyLeadsError,
    UnreachableError,
)
from causeway.http import served
from causeway.operate.running import RunningDriver
from tests.builders.served import TOKEN, settings
from tests.builders.status import full
from tests.harness.kafka.certificates import create_certificates

ANY = HttpSettings(port=0)


def of(http: HttpSettings) -> Settings:
    return Settings(links=(settings(),), run=RunSettings(http=http), spark={})


@contextmanager
def running(http: HttpSettings = ANY) -> Iterator[str]:
    """The address of a server of a made-up run."""
    with served(of(http)) as serving:
        serving.take(full)
        assert serving.address is not None
        yield serving.address


def test_it_learns_settings_links_and_topics() -> None:
    here = replace(ANY, token=Secret(TOKEN))
    wanted = rows_of(of(here))
    with running(here) as url:
        driver = RunningDriver(of(here), url)
        assert changed_rows(driver.settings(wanted), wanted) == ()
        other = of(replace(here, token=Secret("another-token-of-it")))
        (change,) = changed_rows(driver.settings(rows_of(other)), rows_of(other))
        assert (change.place, change.after) == ("causeway.http.token", "(changed)")
        (link,) = driver.links().values()
        assert (link.link, link.role, link.planned) == ("A->B", "leading", True)
        (topic,) = driver.topics("A->B").values()
        assert (topic.topic, topic.target_topic) == ("orders", "A.orders")


def test_the_address_is_that_of_the_file() -> None:
    assert RunningDriver(of(HttpSettings(port=8490))).url == "http://127.0.0.1:8490"
    assert RunningDriver(of(HttpSettings(port=1, host="::"))).url == "http://[::1]:1"
    https = HttpSettings(port=443, host="mirror.example", certificate="c", key="k")
    assert RunningDriver(of(https)).url == "https://mirror.example:443"


@pytest.mark.parametrize("http", [HttpSettings(port=None), ANY])
def test_a_file_without_an_address(http: HttpSettings) -> None:
    with pytest.raises(NobodyLeadsError, match="give --url"):
        RunningDriver(of(http), remedy="give --url")


@pytest.mark.parametrize(
    ("http", "url", "says"),
    [
        (ANY, "127.0.0.1:8490", "it is no address such as http://127.0.0.1:8490"),
        (ANY, "file:///etc/passwd", "it is no address"),
        (ANY, "http://127.0.0.1:8490/page", "it is no address"),
        (replace(ANY, token=Secret(TOKEN)), "http://mirror.example", "could read the token"),
    ],
)
def test_addresses_that_cannot_be_used(http: HttpSettings, url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RunningDriver(of(http), url)


def failure(driver: RunningDriver) -> CausewayError:
    with pytest.raises(CausewayError) as caught:
        driver.settings({})
    assert TOKEN not in str(caught.value)
    return caught.value


def test_no_driver_answers() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # does not listen
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = failure(RunningDriver(of(ANY), url, "start it"))
    assert isinstance(error, NobodyLeadsError)
    assert str(error) == f"ask the driver at {url}: Connection refused (start it)"


def test_a_wrong_token() -> None:
    with running(replace(ANY, token=Secret(TOKEN))) as url:
        error = failure(RunningDriver(of(ANY), url))
    assert isinstance(error, AuthenticationError)
    assert "causeway.http.token" in error.remedy


def test_a_run_that_has_just_started() -> None:
    with served(of(ANY)) as serving:
        assert serving.address is not None
        with pytest.raises(UnreachableError, match="just started") as caught:
            RunningDriver(of(ANY), serving.address).links()
    assert caught.value.retriable


def test_the_certificate_is_that_of_the_file(tmp_path: Path) -> None:
    """The one of the file is trusted without its authority. Another server gets no token."""
    files = create_certificates(tmp_path)
    own = HttpSettings(
        port=0, certificate=str(files.broker), key=str(files.broker), token=Secret(TOKEN)
    )
    with running(own) as url:
        assert url.startswith("https://")
        RunningDriver(of(own), url).settings({})
        other = replace(own, certificate=str(files.client))
        assert "certificate verify failed" in str(failure(RunningDriver(of(other), url)))
        unknown = replace(own, certificate=None)
        assert "certificate verify failed" in str(failure(RunningDriver(of(unknown), url)))


def test_a_server_that_wants_client_certificates(tmp_path: Path) -> None:
    files = create_certificates(tmp_path)
    own = HttpSettings(
        port=0, certificate=str(files.broker), key=str(files.broker), client_ca=str(files.ca)
    )
    with running(own) as url:
        assert isinstance(failure(RunningDriver(of(own), url)), NobodyLeadsError)
