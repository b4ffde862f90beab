"""The server itself: sockets, TLS, and what it is where an address cannot be had."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from causeway.config import HttpSettings, RunSettings, Secret, Settings
from causeway.errors import ConfigError
from causeway.http import server
from causeway.http.history import Events
from causeway.http.listener import Certificate
from causeway.http.server import Serving, served
from causeway.status import Snapshot
from tests.builders.served import TOKEN, settings
from tests.builders.status import full
from tests.harness.kafka.certificates import Certificates, create_certificates
from tests.harness.waiting import await_until

ANY = HttpSettings(port=0)


def running(http: HttpSettings = ANY, **run: Any) -> Settings:
    return Settings(links=(settings(),), run=RunSettings(http=http, **run), spark={})


def get(address: str, **more: Any) -> Any:
    with urlopen(address, timeout=30, **more) as answer:
        text = answer.read().decode()
        return json.loads(text) if "json" in answer.headers["content-type"] else text


def address_of(serving: Serving) -> str:
    assert serving.trouble is None
    assert serving.address is not None
    return serving.address


def test_it_serves_while_the_block_lasts() -> None:
    with served(running()) as serving:
        address = address_of(serving)
        assert address.startswith("http://127.0.0.1:")
        serving.take(full)
        assert get(f"{address}/api/v1/links")["items"][0]["link"] == "A->B"
        assert get(f"{address}/connectors")[0] == "A->B.MirrorSourceConnector"
        worker = get(f"{address}/connectors/A->B.MirrorSourceConnector/status")["connector"]
        assert worker["worker_id"] == address.removeprefix("http://")
    with pytest.raises(URLError):
        get(f"{address}/healthz")
    assert not [each for each in threading.enumerate() if each.name == "http"]


def test_it_ends_at_once_though_connections_are_open() -> None:
    with served(running()) as serving:
        host, _, number = address_of(serving).removeprefix("http://").partition(":")
        get(f"{serving.address}/healthz")
        idle = socket.create_connection((host, int(number)))
    with suppress(ConnectionResetError):
        assert idle.recv(1) == b""


def test_a_look_that_hangs_holds_up_no_end() -> None:
    code = (
        "import socket, threading, causeway.http.server as s\n"
        "from causeway.config import HttpSettings, RunSettings, Settings\n"
        "run = RunSettings(http=HttpSettings(port=0))\n"
        "looks, held = threading.Event(), threading.Event()\n"
        "with s.served(Settings(links=(), run=run, spark={})) as serving:\n"
        "    serving.take(lambda: (looks.set(), held.wait()))\n"
        "    host, _, port = serving.address.removeprefix('http://').partition(':')\n"
        "    for path in ('/api/v1/overview', '/metrics'):\n"
        "        sock = socket.create_connection((host, int(port)))\n"
        "        sock.sendall(f'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n'.encode())\n"
        "        assert looks.wait(30)\n"
        "        looks.clear()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert not re.search("Traceback|Error", ended.stderr), ended.stderr


def test_nothing_is_loaded_before_the_first_request() -> None:
    """The command line knows nothing of the framework, and no run that is left alone."""
    code = (
        "import sys, time, urllib.request, causeway.cli.run, causeway.http.server as s\n"
        "from causeway.config import HttpSettings, RunSettings, Settings\n"
        "run = RunSettings(http=HttpSettings(port=0))\n"
        "names = {'fastapi', 'uvicorn', 'starlette', 'prometheus_client'}\n"
        "with s.served(Settings(links=(), run=run, spark={})) as serving:\n"
        "    time.sleep(0.5)\n"
        "    assert not names & set(sys.modules), names & set(sys.modules)\n"
        "    urllib.request.urlopen(serving.address + '/healthz')\n"
        "    assert names <= set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_events_of_the_log_are_kept_for_who_asks() -> None:
    log = logging.getLogger("causeway.link")
    log.setLevel(logging.INFO)
    with served(running()) as serving:
        serving.take(full)
        log.info("begin", extra={"link": "A->B", "partitions": 2})
        log.warning("paused", extra={"link": "A->B", "reason": "by anna@ops1"})
        log.error("internal error", exc_info=ValueError("of the inside"), extra={"task": "ACLs"})
        logging.getLogger("others").warning("not ours")
        logging.getLogger("causeway.link").debug("too small")
        events = f"{address_of(serving)}/api/v1/events"
        found = get(events)["items"]
        assert [each["event"] for each in found] == ["internal error", "paused", "begin"]
        assert found[0]["about"] == {"task": "ACLs", "error": "ValueError"}
        assert found[0]["link"] is None
        assert (found[1]["level"], found[1]["about"]) == ("warning", {"reason": "by anna@ops1"})
        assert found[2]["about"] == {"partitions": "2"}
        assert get(f"{events}?search=ANNA")["items"] == [found[1]]
        assert get(f"{events}?level=info&level=error")["items"] == [found[0], found[2]]
        page = get(f"{events}?link=A-%3EB&offset=1&limit=1")
        assert (page["total"], page["items"]) == (2, [found[2]])
        for number in range(2_500):
            log.info("many", extra={"number": number})
        assert get(f"{events}?limit=1")["total"] == 2_000
    log.info("nobody hears")
    assert not [h for h in logging.getLogger("causeway").handlers if isinstance(h, Events)]


def test_what_is_no_text_in_a_log_hides_no_other_event() -> None:
    log = logging.getLogger("causeway.link")
    with served(running()) as serving:
        serving.take(full)
        log.warning("odd", extra={"file": "/tmp/\udcff", "\udcff": 1})
        (found,) = get(f"{address_of(serving)}/api/v1/events")["items"]
    assert found["about"] == {"file": "/tmp/?", "?": "1"}


def test_a_server_that_fails_says_so_and_leaves_no_caller_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise MemoryError("of the inside")

    monkeypatch.setattr("causeway.http.app.main_app", broken)
    with served(running()) as serving:
        for _ in range(2):
            with pytest.raises((URLError, ConnectionError)):
                get(f"{address_of(serving)}/healthz")
        await_until(lambda: "serves no more" in caplog.messages, 60, "it is told")
    assert caplog.messages == ["serves no more"]


def test_where_nothing_is_to_be_served_there_is_no_thread() -> None:
    with served(running(HttpSettings(port=None))) as serving:
        assert serving.address is None
        assert not [each for each in threading.enumerate() if each.name == "http"]


def test_a_look_is_made_for_each_scrape_of_metrics_alone(port: int) -> None:
    """And for no other call: of 100,000 partitions it takes a second. The port has metrics and
    probes alone, for calls under known names."""
    looks: list[Snapshot] = []

    def look() -> Snapshot:
        looks.append(replace(full(), lanes_wanted=7))
        return looks[-1]

    http = HttpSettings(port=None)
    with served(running(http, metrics_port=port, metrics_names=("known.example",))) as serving:
        serving.take(full)
        serving.take(look)
        assert not looks
        page = get(f"http://127.0.0.1:{port}/metrics")
        found = {s.name: s.value for f in text_string_to_metric_families(page) for s in f.samples}
        assert get(f"http://127.0.0.1:{port}/healthz") == {"status": "ok"}
        with pytest.raises(URLError, match="404"):
            get(f"http://127.0.0.1:{port}/api/v1/links")
        name = Request(f"http://127.0.0.1:{port}/metrics", headers={"host": "known.example"})
        with urlopen(name, timeout=30) as answer:
            assert answer.status == 200
        name.add_header("host", "evil.example")
        with pytest.raises(URLError, match="403"):
            urlopen(name, timeout=30)
    assert len(looks) in (1, 2)
    assert found["causeway_lanes_wanted"] == 7
    assert found["process_resident_memory_bytes"] > 0
    with pytest.raises(URLError):
        get(f"http://127.0.0.1:{port}/metrics")


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_address_of_metrics_that_cannot_be_had_is_said_in_one_line(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        refused = pytest.raises(ConfigError, match=f"serve metrics at {host}:{port}: ")
        with refused as caught, served(running(metrics_host=host, metrics_port=port)):
            pass
    assert "causeway.metrics.port" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_address_that_is_not_ours_is_refused() -> None:
    http = HttpSettings(port=0, host="192.0.2.1")
    with pytest.raises(ConfigError, match=r"serve http at 192\.0\.2\.1:0: "), served(running(http)):
        pass


def test_a_port_in_use_is_reported_and_taken_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, port: int
) -> None:
    """A run goes on without; the next one of a rolling upgrade takes it over."""
    monkeypatch.setattr(server, "_AGAIN_S", 0.2)
    other = socket.create_server(("127.0.0.1", port))
    with (
        caplog.at_level(logging.INFO, "causeway.http"),
        served(running(HttpSettings(port=port))) as serving,
    ):
        assert serving.address is None
        assert f"serve http at 127.0.0.1:{port}: Address already in use (" in str(serving.trouble)
        assert "choose another causeway.http.port" in str(serving.trouble)
        assert "\n" not in str(serving.trouble)
        serving.take(full)
        other.close()
        await_until(lambda: "served" in caplog.messages, 60, "the address is ours")
        assert get(f"http://127.0.0.1:{port}/healthz") == {"status": "ok"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return create_certificates(tmp_path_factory.mktemp("certificates"))


def https(files: Certificates, **more: Any) -> HttpSettings:
    own = str(files.broker)  # holds both
    return HttpSettings(**{"port": 0, "certificate": own, "key": own, **more})


def trusting(files: Certificates, *, ours: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(files.ca))
    if ours is not None:
        context.load_cert_chain(ours)
    return context


def test_tls_and_a_token(files: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    with served(running(https(files, token=Secret(TOKEN)))) as serving:
        serving.take(full)
        address = address_of(serving)
        assert address.startswith("https://127.0.0.1:")
        context = trusting(files)
        assert get(f"{address}/readyz", context=context) == {"status": "ready"}
        with pytest.raises(URLError, match="401"):
            get(f"{address}/api/v1/links", context=context)
        right = Request(f"{address}/api/v1/links", headers={"authorization": f"Bearer {TOKEN}"})
        assert get(right, context=context)["total"] == 1  # type: ignore[arg-type]
        with pytest.raises((URLError, HTTPException, ConnectionError)):
            get(address.replace("https", "http") + "/readyz")
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            get(f"{address}/readyz", context=ssl.create_default_context(cafile=files.stranger))
    (refused,) = [each for each in caplog.records if each.getMessage() == "call refused"]
    assert vars(refused)["status"] == 401
    assert TOKEN not in caplog.text


def test_clients_need_a_certificate_where_the_file_says_whose(files: Certificates) -> None:
    with served(running(https(files, client_ca=str(files.ca)))) as serving:
        serving.take(full)
        address = address_of(serving)
        ours = trusting(files, ours=files.client)
        assert get(f"{address}/api/v1/links", context=ours)["total"] == 1
        with pytest.raises((URLError, ssl.SSLError, ConnectionError)):
            get(f"{address}/api/v1/links", context=trusting(files))


def test_a_certificate_that_changes_is_served_from_then_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = create_certificates(tmp_path / "first").broker.read_bytes()
    second = create_certificates(tmp_path / "second").broker.read_bytes()
    file = tmp_path / "server.pem"
    file.write_bytes(first)
    certificate = Certificate(HttpSettings(port=0, certificate=str(file), key=str(file)))

    with caplog.at_level(logging.INFO, "causeway.http"):
        certificate.renew()
        assert not caplog.messages
        file.write_bytes(b"half of it")
        certificate.renew()
        assert served_by(certificate.context, tmp_path / "first")
        file.write_bytes(second)
        certificate.renew()
    assert caplog.messages == ["certificate not renewed", "certificate renewed"]
    assert served_by(certificate.context, tmp_path / "second")


def served_by(context: ssl.SSLContext, trusted: Path) -> bool:
    """Whether who trusts what lies there takes a connection of `context`."""
    client = ssl.create_default_context(cafile=str(trusted / "ca.pem"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
    return ends[0].version() is not None


def test_a_renewed_authority_of_clients_is_trusted_too(files: Certificates, tmp_path: Path) -> None:
    authority = tmp_path / "clients.pem"
    authority.write_bytes(files.stranger.read_bytes())
    certificate = Certificate(
        HttpSettings(
            port=0,
            certificate=str(files.broker),
            key=str(files.broker),
            client_ca=str(authority),
        )
    )
    before = len(certificate.context.get_ca_certs())
    authority.write_bytes(files.ca.read_bytes())
    certificate.renew()
    assert len(certificate.context.get_ca_certs()) == before + 1


def test_a_certificate_whose_key_is_not_there_yet_is_not_served(tmp_path: Path) -> None:
    """Two files do not change at once; and a wrong pair may stay for days."""
    first = create_certificates(tmp_path / "first").broker.read_bytes()
    second = create_certificates(tmp_path / "second").broker.read_bytes()
    file, key = tmp_path / "server.crt", tmp_path / "server.key"
    file.write_bytes(first)
    key.write_bytes(first)
    certificate = Certificate(HttpSettings(port=0, certificate=str(file), key=str(key)))
    file.write_bytes(second)
    certificate.renew()
    assert served_by(certificate.context, tmp_path / "first")
    key.write_bytes(second)
    certificate.renew()
    assert served_by(certificate.context, tmp_path / "second")


@contextmanager
def unusable(message: str) -> Iterator[None]:
    with pytest.raises(ConfigError, match=message) as caught:
        yield
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_used(files: Certificates, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()

    def start(**more: Any) -> Callable[[], Any]:
        return served(running(https(files, **more))).__enter__

    with unusable(r"use causeway\.http\.tls\.certificate .*none\.pem: No such file"):
        start(certificate=str(tmp_path / "none.pem"))()
    with unusable(r"use causeway\.http\.tls\.key .*none\.pem: No such file"):
        start(key=str(tmp_path / "none.pem"))()
    with unusable("matching PEM files"):
        start(key=str(files.client_key))()
    with unusable("the key has a password"):
        start(certificate=str(files.client_certificate), key=str(files.client_key_encrypted))()
    with unusable(r"tls\.client\.ca .*empty\.pem: it has no certificate"):
        start(client_ca=str(empty))()
