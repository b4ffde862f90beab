"""What a driver does with a changed file: when it reads the file, and if something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from causeway.config import ClientSettings, Settings
from causeway.config.reading import clients_of
from causeway.daemon import reloading
from causeway.daemon.clients import Clients
from causeway.daemon.reload_checks import difference
from causeway.daemon.reloading import Reloader
from causeway.errors import NeedsRestartError, UnreachableError
from causeway.formats import load
from causeway.status import ReloadResult
from tests.harness.config_files import TWO_CLUSTERS, mirror, write

ON_CHANGE = "causeway.reload = on-change\n"


class Driver:
    """`applied`: the settings that were put in force; `noted`: the reasons that were shown."""

    def __init__(self, file: Path) -> None:
        settings = load(file)
        clients = Clients()
        for role, each in clients_of(settings).items():
            clients.open(role, each)
        self.applied: list[Settings] = []
        self.noted: list[str | None] = []
        self.failures: list[Exception] = []
        self.renewed: list[ClientSettings] = []
        self.in_force: list[Settings] = []  # with renewed credentials
        self.late: list[str] = []
        self.unreachable: list[Exception] = []
        self.reloader = Reloader(
            settings,
            clients,
            compare=difference,
            check=self._check,
            apply=self._apply,
            on_renewed=self._renew,
            on_noted=self.noted.append,
            reach=self._reach,
        )

    def _check(self, settings: Settings) -> Settings:
        if self.failures:
            raise self.failures.pop()
        return settings

    def _renew(self, changed: Mapping[str, ClientSettings], settings: Settings) -> None:
        self.renewed.extend(changed.values())
        self.in_force.append(settings)

    def _apply(self, settings: Settings) -> list[str]:
        self.applied.append(settings)
        return self.late

    def _reach(self, _: ClientSettings) -> None:
        if self.unreachable:
            raise self.unreachable.pop()

    def turns(self, count: int = 2) -> None:
        for _ in range(count):
            self.reloader.turn()

    @property
    def topics(self) -> list[str]:
        return [settings.links[0].topics[0].text for settings in self.applied]


def file_of(folder: Path, *lines: str) -> Path:
    file = folder / "mm2.properties"
    file.write_text(TWO_CLUSTERS + "\n".join(lines))
    return file


def test_a_file_that_was_the_same_at_two_looks_is_put_in_force(tmp_path: Path) -> None:
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    driver.turns(3)
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = half")
    driver.turns(1)
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = half and whole")
    driver.turns(1)
    assert driver.topics == []
    driver.turns(1)
    assert driver.topics == ["half and whole"]
    driver.turns(3)
    assert len(driver.applied) == 1
    status = driver.reloader.status
    assert (status.result, status.pending) == (ReloadResult.APPLIED, False)
    assert status.changes == ("A->B.topics: .* → half and whole",)


def test_a_wrong_file_leaves_the_settings_and_a_corrected_one_follows(tmp_path: Path) -> None:
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = (")
    driver.turns()
    status = driver.reloader.status
    assert (driver.applied, status.result, status.exit_code) == ([], ReloadResult.REFUSED, 2)
    assert "topics (line 6)" in str(status.reason)
    assert driver.noted == [status.reason]
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = right")
    driver.turns()
    assert driver.topics == ["right"]
    assert driver.noted[-1] is None


def test_nothing_of_a_file_that_needs_a_restart_is_put_in_force(tmp_path: Path) -> None:
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = other\nspark.master = local[7]")
    driver.turns()
    status = driver.reloader.status
    assert (driver.applied, status.result) == ([], ReloadResult.NEEDS_RESTART)
    assert status.exit_code == 12
    assert "spark.master (Spark reads its settings when it starts)" in str(status.reason)
    assert "A->B.topics: .* → other" in status.changes


def test_a_changed_python_module_needs_a_restart(tmp_path: Path) -> None:
    driver = Driver(file_of(tmp_path))
    driver.failures.append(NeedsRestartError("use", "transform pii", "its Python module changed"))
    answer = driver.reloader.ask("anna")
    driver.turns(1)
    assert (answer.result(0).result, answer.result(0).exit_code) == (ReloadResult.NEEDS_RESTART, 12)


def test_a_change_waits_for_a_request_by_default(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    driver = Driver(file)
    write(file, TWO_CLUSTERS + "topics = other")
    driver.turns(3)
    status = driver.reloader.status
    assert (driver.applied, status.pending, status.result) == ([], True, None)
    assert status.changes == ("A->B.topics: .* → other",)
    answers = [driver.reloader.ask("anna"), driver.reloader.ask("ben")]
    driver.turns(1)
    assert driver.topics == ["other"]
    assert {answer.result(0).by for answer in answers} == {"ben"}
    driver.reloader.ask("anna")
    driver.turns(1)
    assert driver.reloader.status.result is ReloadResult.UNCHANGED


def test_a_cluster_that_does_not_answer_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "_AGAIN_S", -1.0)
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    driver.failures.append(UnreachableError("reach", "C", "no answer", retriable=True))
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = other")
    driver.turns()
    assert driver.applied == []
    assert "no answer" in str(driver.reloader.status.reason)
    driver.turns(1)
    assert driver.topics == ["other"]


@pytest.mark.parametrize("asked", [True, False])
def test_an_unexpected_error_is_an_answer_and_the_file_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    monkeypatch.setattr(reloading, "_AGAIN_S", -1.0)
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    driver.failures.append(RuntimeError("s3cret"))
    write(file, TWO_CLUSTERS + ON_CHANGE + "topics = other")
    answer = driver.reloader.ask("anna") if asked else None
    driver.turns(1 if asked else 2)
    status = driver.reloader.status
    assert (status.result, status.pending, status.exit_code) == (ReloadResult.REFUSED, True, 1)
    assert "internal error RuntimeError" in str(status.reason)
    assert "s3cret" not in str(status.reason)
    assert answer is None or answer.result(0) == status
    driver.turns(1)
    assert driver.topics == ["other"]


def test_an_unexpected_error_of_a_renewal_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "_AGAIN_S", -1.0)
    driver = Driver(mirror(tmp_path))
    driver.unreachable.append(RuntimeError())
    write(tmp_path / "password", "second")
    driver.turns()
    assert "internal error RuntimeError" in str(driver.reloader.status.reason)
    driver.turns(1)
    assert driver.reloader.status.reason is None
    assert [each.sasl and each.sasl.password.reveal() for each in driver.renewed] == ["second"]


def test_the_answer_names_the_flows_that_have_yet_to_take_the_change_up(tmp_path: Path) -> None:
    file = file_of(tmp_path)
    driver = Driver(file)
    driver.late = ["A->B"]
    write(file, TWO_CLUSTERS + "topics = other")
    answer = driver.reloader.ask("anna")
    driver.turns(1)
    assert answer.result(0).changes[1:] == ("A->B: not yet, it ends its earlier work first",)


def test_at_the_end_of_the_run_no_caller_waits(tmp_path: Path) -> None:
    driver = Driver(file_of(tmp_path))
    before = driver.reloader.ask("anna")
    driver.reloader.stop()
    assert before.cancelled()
    assert driver.reloader.ask("ben").cancelled()
    driver.turns(1)


@pytest.mark.parametrize("times", [1, 100])
def test_parts_of_two_versions_of_the_file_are_not_put_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The file is read before a change, and a file that it refers to after it."""
    names = tmp_path / "names"
    names.write_text("old")
    file = file_of(tmp_path, ON_CHANGE, f"topics = first, ${{dir:{tmp_path}:names}}")
    driver = Driver(file)
    changes = iter(range(times))
    read = Path.read_bytes

    def changing(path: Path) -> bytes:
        found = read(path)
        if path == file and (number := next(changes, None)) is not None:
            text = f"{TWO_CLUSTERS}{ON_CHANGE}topics = x{number}, ${{dir:{tmp_path}:names}}"
            write(file, text)
            write(names, f"new{number}")
        return found

    monkeypatch.setattr(Path, "read_bytes", changing)
    answer = driver.reloader.ask("anna")
    driver.turns(1)
    if times == 1:
        assert [[each.text for each in one.links[0].topics] for one in driver.applied] == [
            ["x0", "new0"]
        ]
    else:
        assert driver.applied == []
        assert "changes while it is read" in str(answer.result(0).reason)


@pytest.mark.parametrize(
    "appear",
    [
        pytest.param(lambda path: path.write_text("other"), id="created"),
        pytest.param(
            lambda path: path.symlink_to(path.with_name("elsewhere")), id="by a symbolic link"
        ),
    ],
)
def test_a_file_that_the_file_refers_to_is_awaited(
    tmp_path: Path, appear: Callable[[Path], object]
) -> None:
    (tmp_path / "elsewhere").write_text("other")
    file = file_of(tmp_path, ON_CHANGE)
    driver = Driver(file)
    write(file, f"{TWO_CLUSTERS}{ON_CHANGE}topics = ${{dir:{tmp_path}:topics}}")
    driver.turns()
    assert driver.applied == []
    appear(tmp_path / "topics")
    driver.turns()
    assert driver.topics == ["other"]


def test_a_file_with_the_query_of_a_transform_is_part_of_the_file(tmp_path: Path) -> None:
    query = tmp_path / "pii.sql"
    query.write_text("SELECT * FROM records")
    file = file_of(
        tmp_path,
        ON_CHANGE,
        "A->B.causeway.transforms = pii",
        "A->B.causeway.transform.pii.topics = orders",
        "A->B.causeway.transform.pii.sql.file = pii.sql",
    )
    driver = Driver(file)
    write(query, "SELECT key, value FROM records")
    driver.turns()
    (settings,) = driver.applied
    assert settings.links[0].transforms[0].sql == "SELECT key, value FROM records"


def test_a_renewed_password_does_not_wait_for_a_mistake_in_the_file(tmp_path: Path) -> None:
    file = mirror(tmp_path)
    text = file.read_text()
    write(file, text + ON_CHANGE)
    driver = Driver(file)
    write(file, text + ON_CHANGE + "spark.master = local[7]")
    write(tmp_path / "password", "second")
    driver.turns()
    assert driver.renewed == [], "nothing of a file that needs a restart"
    write(tmp_path / "password", "third")
    driver.turns()
    assert driver.reloader.status.result is ReloadResult.NEEDS_RESTART
    assert [each.sasl and each.sasl.password.reveal() for each in driver.renewed] == ["third"]


@pytest.mark.parametrize("mode", ["", ON_CHANGE + "spark.master = local[7]\n"])
def test_the_settings_in_force_have_the_renewed_credentials(tmp_path: Path, mode: str) -> None:
    """The HTTP API asks clusters with them. All else is as before."""
    file = mirror(tmp_path)
    text = file.read_text()
    write(file, text + mode.removesuffix("spark.master = local[7]\n"))
    driver, before = Driver(file), load(file)
    write(file, text + mode + "A->B.topics = other\n")
    driver.turns()
    for word in ("second", "first"):
        write(tmp_path / "password", word)
        driver.turns()
        link = driver.in_force[-1].links[0]
        assert link.source.sasl is not None
        assert link.source.sasl.password.reveal() == word
        assert link.topics == before.links[0].topics
    assert len(driver.in_force) == 2
