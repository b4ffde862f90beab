"""Credentials from each place that AWS's tools know, asked of stand-ins on loopback."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from causeway.config import AwsSettings, Secret
from causeway.errors import AuthenticationError, PrerequisiteError, UnreachableError
from causeway.extras import install_extra
from causeway.logins.aws_credentials import AwsLogin
from tests.harness.msk.aws import REGION, Services, aws_services

PATIENCE_S = 600.0  # no test waits so long: the stand-ins answer
ROLE = "arn:aws:iam::1:role/mirror"
SECRET = "s3cret+/word"
Enter = Callable[[Mapping[str, str]], None]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with aws_services() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def enter(services: Services, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Sets variables of the environment."""

    def enter(environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return enter


@pytest.fixture
def in_environment(services: Services, enter: Enter) -> None:
    enter(services.environment_of(services.add("AKIAENV", SECRET)))


@pytest.fixture
def profiles(tmp_path: Path, enter: Enter) -> Path:
    """The file of credentials; it is not there yet."""
    enter({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")})
    return tmp_path / "credentials"


def key_of(settings: AwsSettings) -> str:
    return key_by(AwsLogin(settings))


def key_by(login: AwsLogin) -> str:
    return str(login.credentials("A", PATIENCE_S).access_key)


def principal(services: Services, settings: AwsSettings) -> str:
    """Whose credentials a login has; the secret and the session token are the key's own."""
    found = AwsLogin(settings).credentials("A", PATIENCE_S)
    key = services.keys[found.access_key]
    assert (found.secret_key, found.token) == (key.secret, key.token)
    return key.principal


def profile(id: str, name: str = "default", **more: str) -> str:
    lines = {"aws_access_key_id": id, "aws_secret_access_key": SECRET, **more}
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


@pytest.mark.usefixtures("in_environment")
def test_of_the_environment(services: Services) -> None:
    assert principal(services, AwsSettings()) == "user/AKIAENV"


def test_of_a_file_and_of_its_next_version(profiles: Path) -> None:
    login = AwsLogin(AwsSettings())
    profiles.write_text(profile("AKIA1"))
    assert key_by(login) == "AKIA1"
    profiles.write_text(profile("AKIA2", aws_session_token="new"))
    assert key_by(login) == "AKIA2"


@pytest.mark.usefixtures("in_environment")
def test_of_a_named_profile(profiles: Path) -> None:
    profiles.write_text(profile("AKIA1") + profile("AKIA2", "mirror"))
    assert key_of(AwsSettings(profile="mirror")) == "AKIA2"


def test_of_a_profile_with_a_role(services: Services, profiles: Path) -> None:
    role = f"[mirror]\nrole_arn = {ROLE}\nsource_profile = base\nrole_session_name = east\n"
    services.add("AKIA1", SECRET)
    profiles.write_text(profile("AKIA1", "base") + role)
    assert principal(services, AwsSettings(profile="mirror")) == "mirror/east"


@pytest.mark.usefixtures("in_environment")
def test_of_a_role(services: Services) -> None:
    settings = AwsSettings(role_arn=ROLE)
    assert principal(services, settings) == "mirror/aws-msk-iam-auth"
    settings = AwsSettings(role_arn=ROLE, role_session_name="east", role_external_id="x 7")
    assert principal(services, settings) == "mirror/east"
    assert services.forms[-1]["ExternalId"] == "x 7"


def test_of_a_role_with_keys_of_its_own(services: Services) -> None:
    services.add("AKIAOWN", SECRET)
    settings = AwsSettings(
        role_arn=ROLE, access_key_id=Secret("AKIAOWN"), secret_access_key=Secret(SECRET)
    )
    assert principal(services, settings) == "mirror/aws-msk-iam-auth"
    assert services.asked == ["AssumeRole"]


def test_of_a_web_identity(services: Services, enter: Enter, tmp_path: Path) -> None:
    enter(services.web_identity_environment(tmp_path))
    assert principal(services, AwsSettings()).startswith("eks/")
    assert services.asked == ["AssumeRoleWithWebIdentity"]


def test_of_a_role_that_a_web_identity_assumes(
    services: Services, enter: Enter, tmp_path: Path
) -> None:
    enter(services.web_identity_environment(tmp_path))
    assert principal(services, AwsSettings(role_arn=ROLE)) == "mirror/aws-msk-iam-auth"


def test_of_the_container(services: Services, enter: Enter) -> None:
    enter(services.container_environment())
    assert principal(services, AwsSettings()) == "container"


def test_of_the_container_by_a_path(
    services: Services, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ECS's variable has a path on a fixed address."""
    address = services.url.removeprefix("http://")
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.IP_ADDRESS", address)
    enter(services.container_environment())
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    enter({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/container"})
    assert principal(services, AwsSettings()) == "container"


def test_of_the_instance(services: Services) -> None:
    assert principal(services, AwsSettings()) == "node"
    assert services.asked[0] == "PUT /latest/api/token"


@pytest.mark.parametrize("life_s", [3600, 500])
def test_credentials_are_kept_until_shortly_before_they_expire(
    services: Services, life_s: float, enter: Enter
) -> None:
    """Ten minutes before at the latest there are new ones."""
    services.life_s = life_s
    enter(services.container_environment())
    login = AwsLogin(AwsSettings())
    first, second = key_by(login), key_by(login)
    assert (first == second) == (life_s == 3600)


@pytest.mark.usefixtures("in_environment")
def test_however_many_log_in_one_asks(services: Services) -> None:
    login = AwsLogin(AwsSettings(role_arn=ROLE))
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: key_by(login), range(16)))
    assert len(found) == 1
    assert services.asked == ["AssumeRole"]


def test_a_source_that_has_none_is_followed_by_the_next(services: Services) -> None:
    """As in Amazon's library, a profile that is not there leads to the default sources."""
    assert principal(services, AwsSettings(profile="other")) == "node"


@pytest.mark.usefixtures("in_environment")
def test_without_the_default_sources_there_is_no_next(services: Services) -> None:
    services.refuses_roles = True
    with pytest.raises(AuthenticationError) as failure:
        key_of(AwsSettings(profile="other", role_arn=ROLE, default_sources=False))
    assert str(failure.value).startswith(
        "get AWS credentials for A: profile other: The config profile (other) could not be found;"
        f" role {ROLE}: STS refused: AccessDenied"
    )
    assert "secret text" not in str(failure.value)


@pytest.mark.usefixtures("in_environment")
def test_a_profile_has_not_the_credentials_of_the_instance(profiles: Path) -> None:
    profiles.write_text("[mirror]\nregion = eu-west-1\n")
    with pytest.raises(AuthenticationError, match="profile mirror: it has no credentials"):
        key_of(AwsSettings(profile="mirror", default_sources=False))


@pytest.mark.usefixtures("in_environment")
def test_a_service_that_fails_is_asked_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    here, sleep = threading.get_ident(), time.sleep  # an earlier test may have left threads

    def pause(seconds: float) -> None:
        pauses.append(seconds) if threading.get_ident() == here else sleep(seconds)

    monkeypatch.setattr("causeway.logins.aws_credentials.time.sleep", pause)
    services.failures = 3
    settings = AwsSettings(role_arn=ROLE, default_sources=False)
    assert principal(services, settings) == "mirror/aws-msk-iam-auth"
    assert len(pauses) == 3
    services.failures = 3
    with pytest.raises(UnreachableError) as failure:
        key_of(AwsSettings(role_arn=ROLE, default_sources=False, max_retries=2))
    assert failure.value.retriable


@pytest.mark.usefixtures("in_environment")
def test_new_credentials_after_a_failure_to_renew(services: Services) -> None:
    services.life_s = 500
    settings = AwsSettings(role_arn=ROLE, default_sources=False, max_retries=0)
    login = AwsLogin(settings)
    first = key_by(login)
    services.failures = 2
    with pytest.raises(UnreachableError):
        key_by(login)
    assert key_by(login) != first


def test_a_code_of_a_person_is_not_asked_for(
    services: Services, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getpass", lambda *_: pytest.fail("asked at the terminal"))
    role = (
        f"[mirror]\nrole_arn = {ROLE}\nsource_profile = base\nmfa_serial = arn:aws:iam::1:mfa/a\n"
    )
    profiles.write_text(profile("AKIA1", "base") + role)
    with pytest.raises(AuthenticationError, match="asks for an MFA code"):
        key_of(AwsSettings(profile="mirror", default_sources=False))


def test_no_secret_in_errors_and_logs(
    services: Services, enter: Enter, profiles: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    services.container_token = SECRET
    enter({**services.container_environment(), "AWS_CONTAINER_AUTHORIZATION_TOKEN": f"{SECRET}x"})
    with pytest.raises(UnreachableError) as failure:
        key_of(AwsSettings(max_retries=0))
    profiles.write_text(f"[a]\naws_access_key_id = A\naws_secret_access_key {SECRET}\n")
    with pytest.raises(AuthenticationError, match="Unable to parse config file") as unreadable:
        key_of(AwsSettings(profile="a", default_sources=False))
    for text in (str(failure.value), str(unreadable.value), caplog.text):
        assert SECRET not in text


@pytest.mark.usefixtures("in_environment")
def test_who_logs_in_is_told_once_if_the_file_asks(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "causeway")
    login = AwsLogin(AwsSettings(tells_identity=True))
    key_by(login)
    key_by(login)
    assert caplog.messages == ["A: logs in as arn:aws:sts::1:user/AKIAENV"]
    services.refuses_roles = True
    assert key_of(AwsSettings(tells_identity=True)) == "AKIAENV"
    assert caplog.messages[1:] == [
        "A: the identity of the AWS credentials: STS refused: AccessDenied"
    ]


def test_the_region_of_a_name_else_of_this_machine(
    services: Services, enter: Enter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def region(host: str = "localhost", settings: AwsSettings | None = None) -> str:
        return AwsLogin(settings or AwsSettings()).region("A", host)

    assert region() == REGION  # of the instance
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile p]\nregion = eu-west-2\n"
    )
    enter({"AWS_CONFIG_FILE": str(tmp_path / "config")})
    assert region() == "eu-west-1"
    assert region(settings=AwsSettings(profile="p")) == "eu-west-2"
    enter({"AWS_REGION": "eu-west-3"})
    assert region() == "eu-west-3"
    assert region("msk-us-west-2.example.com") == "us-west-2"
    monkeypatch.delenv("AWS_REGION")
    enter({"AWS_CONFIG_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"})
    with pytest.raises(AuthenticationError, match=r"A localhost: .* \(set AWS_REGION\)"):
        region()
    (tmp_path / "config").write_text("not a file of this kind")
    enter({"AWS_CONFIG_FILE": str(tmp_path / "config")})
    with pytest.raises(AuthenticationError, match="Unable to parse config file"):
        region()


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(PrerequisiteError, match=re.escape(install_extra("aws"))):
        AwsLogin(AwsSettings())
