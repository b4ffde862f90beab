"""AWS credentials of the machine that opens a connection, as AWS's tools find them; its region.

    profile           files in ~/.aws, also with a role, SSO or a process
    role              AssumeRole
    default sources   environment, web identity (EKS), files, container (ECS, EKS), instance (EC2)

The first source that has credentials is used. Credentials with a time of expiry are kept, and
botocore renews them before that time. Others are looked up for each login, because a file or a
process may have new ones. No text of this module shows a secret.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from causeway.config import AwsSettings
from causeway.errors import AuthenticationError, CausewayError, PrerequisiteError, UnreachableError
from causeway.extras import install_extra

_log = logging.getLogger("causeway.logins")
# Its lines may quote an answer with credentials. Causeway reports the failures itself.
logging.getLogger("botocore").setLevel(logging.CRITICAL + 1)

_FIRST_PAUSE_S = 0.5  # as in Amazon's library
_REMEDY = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, awsProfileName or awsRoleArn, or run with a"
    " role of EC2, ECS or EKS"
)
# Sources that a profile must not use: it has its own.
_NOT_OF_PROFILES = ("ec2-credentials-full", "boto-config", "container-role", "iam-role")


class AwsLogin:
    """One client's credentials. Thread-safe: only one request for credentials runs at a time."""

    def __init__(self, settings: AwsSettings) -> None:
        try:
            import botocore.session
        except ImportError:
            raise PrerequisiteError(
                "log in by IAM",
                "",
                "the package botocore is not installed",
                remedy=f"on each machine that connects: {install_extra('aws')}",
            ) from None
        self._settings = settings
        self._session = botocore.session.Session
        self._lock = threading.Lock()
        self._kept: Any = None  # RefreshableCredentials
        self._region = ""
        self._told = ""  # the key whose identity was logged

    def credentials(self, alias: str, timeout_s: float) -> Any:
        """Access key, secret key and session token, for a login to cluster `alias`.

        Raises AuthenticationError if there are none, UnreachableError (retriable) if a source of
        credentials does not answer in `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        with self._lock:
            for left in reversed(range(self._settings.max_retries + 1)):
                try:
                    return self._resolve(alias, max(0.1, deadline - time.monotonic()))
                except UnreachableError:
                    wait_s = random.uniform(0, min(pause_s, self._settings.max_backoff_ms / 1000))  # noqa: S311
                    if not left or time.monotonic() + wait_s >= deadline:
                        raise
                    time.sleep(wait_s)
                    pause_s *= 2
        raise AssertionError("unreachable")

    def region(self, alias: str, host: str) -> str:
        """Returns the region for a broker whose name has none: a region's name anywhere in `host`,
        else the region of the environment, the profile or the instance. Raises AuthenticationError
        if there is none."""
        cause = "neither the broker's name nor this machine's configuration has an AWS region"
        try:
            found = self._find_region(host)
        except Exception as error:
            found, cause = "", _cause(error)[0]
        if not found:
            raise AuthenticationError(
                "log in to", f"{alias} {host}", cause, remedy="set AWS_REGION"
            )
        return found

    def _find_region(self, host: str) -> str:
        from botocore.utils import IMDSRegionProvider

        profile = self._settings.profile
        session = self._session()
        if profile in session.available_profiles:
            session = self._session(profile=profile)
        partitions = session.get_component("data_loader").load_data("partitions")["partitions"]
        known = (name for partition in partitions for name in partition["regions"])
        found = next((name for name in known if name in host), None)
        found = found or os.environ.get("AWS_REGION") or session.get_config_variable("region")
        if not found:
            with self._lock:
                self._region = self._region or IMDSRegionProvider(session).provide() or ""
                found = self._region
        return str(found)

    def _resolve(self, alias: str, timeout_s: float) -> Any:
        causes: list[str] = []
        transient = False
        for name, source in self._sources(timeout_s):
            try:
                credentials = source()
                frozen = credentials and credentials.get_frozen_credentials()
            except Exception as error:
                cause, may_pass = _cause(error)
                causes.append(f"{name}: {cause}")
                transient = transient or may_pass
                continue
            if frozen is None or not frozen.access_key:
                causes.append(f"{name}: it has no credentials")
                continue
            self._kept = credentials if hasattr(credentials, "refresh_needed") else None
            if self._settings.tells_identity and self._told != frozen.access_key:
                self._told = frozen.access_key
                self._tell(alias, frozen, timeout_s)
            return frozen
        self._kept = None
        kind: type[CausewayError] = UnreachableError if transient else AuthenticationError
        raise kind(
            "get AWS credentials for",
            alias,
            "; ".join(causes),
            remedy="" if transient else _REMEDY,
            retriable=transient,
        )

    def _sources(self, timeout_s: float) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yields the sources, by the names that errors give them."""
        settings = self._settings
        if (kept := self._kept) is not None:
            yield "the credentials of the last login", lambda: kept
        if settings.profile is not None:
            yield f"profile {settings.profile}", lambda: self._of_profile(timeout_s)
        if settings.role_arn is not None:
            yield f"role {settings.role_arn}", lambda: self._of_role(timeout_s)
        if settings.default_sources:
            default = "environment, files, container and instance"
            yield default, lambda: self._new_session(None, timeout_s).get_credentials()

    def _new_session(self, profile: str | None, timeout_s: float) -> Any:
        from botocore.config import Config

        session = self._session(profile=profile)
        session.set_default_client_config(
            Config(
                connect_timeout=timeout_s,
                read_timeout=timeout_s,
                retries={"total_max_attempts": 1},  # `credentials` tries again
                use_fips_endpoint=self._settings.fips or None,
            )
        )
        if session.get_config_variable("region") is None:  # botocore knows no AWS_REGION
            region = os.environ.get("AWS_REGION") or self._settings.sts_region
            session.set_config_variable("region", region)
        # A profile may need a code from a person; botocore would ask for it at the terminal.
        resolver = session.get_component("credential_provider")
        resolver.get_provider("assume-role")._prompter = _refuse_code
        if profile is not None:
            for source in _NOT_OF_PROFILES:
                resolver.remove(source)
        return session

    def _of_profile(self, timeout_s: float) -> Any:
        return self._new_session(self._settings.profile, timeout_s).get_credentials()

    def _of_role(self, timeout_s: float) -> Any:
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            Credentials,
            DeferredRefreshableCredentials,
        )
        from botocore.exceptions import NoCredentialsError

        settings = self._settings
        session = self._new_session(None, timeout_s)
        if settings.access_key_id and settings.secret_access_key:
            source = Credentials(
                settings.access_key_id.reveal(),
                settings.secret_access_key.reveal(),
                settings.session_token.reveal() if settings.session_token else None,
            )
        else:
            source = session.get_credentials()
        if source is None:
            raise NoCredentialsError
        arguments = {"RoleSessionName": settings.role_session_name}
        if settings.role_external_id:
            arguments["ExternalId"] = settings.role_external_id
        fetcher = AssumeRoleCredentialFetcher(
            partial(session.create_client, region_name=settings.sts_region),
            source,
            settings.role_arn,
            extra_args=arguments,
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _tell(self, alias: str, credentials: Any, timeout_s: float) -> None:
        """Logs who logs in. If this fails, the login goes on."""
        try:
            client = self._new_session(None, timeout_s).create_client(
                "sts",
                region_name=self._settings.sts_region,
                aws_access_key_id=credentials.access_key,
                aws_secret_access_key=credentials.secret_key,
                aws_session_token=credentials.token,
            )
            arn = client.get_caller_identity()["Arn"]
        except Exception as error:
            _log.warning("%s: the identity of the AWS credentials: %s", alias, _cause(error)[0])
        else:
            _log.info("%s: logs in as %s", alias, arn)


@lru_cache(maxsize=64)
def aws_login(settings: AwsSettings) -> AwsLogin:
    """This process's credentials for these settings, shared by its connections."""
    return AwsLogin(settings)


def _refuse_code(_: str) -> str:
    raise _NoCodeError


class _NoCodeError(Exception):
    pass


# Exceptions of botocore whose texts have at most names of files, profiles and endpoints.
_SHOWN = (
    "ConfigNotFound",
    "ConfigParseError",
    "InfiniteLoopConfigError",
    "InvalidConfigError",
    "NoCredentialsError",
    "ParamValidationError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "SSOTokenLoadError",
    "UnauthorizedSSOTokenError",
    "UnknownCredentialError",
)


def _cause(error: Exception) -> tuple[str, bool]:
    """Returns a cause that may be shown, and whether the error may pass. Does not show texts of
    services, processes and malformed answers, which may contain credentials."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        CredentialRetrievalError,
        HTTPClientError,
        MetadataRetrievalError,
    )

    if isinstance(error, _NoCodeError):
        return "its profile asks for an MFA code, which only a person can give", False
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", "no code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return f"STS refused: {code}", status >= 500 or status == 429 or "Throttl" in code
    if isinstance(error, HTTPClientError):
        endpoint = error.kwargs.get("endpoint_url", "the endpoint")
        return f"no answer from {endpoint}", True
    if isinstance(error, CredentialRetrievalError):
        return f"{error.kwargs.get('provider')} gave no credentials", True
    if isinstance(error, MetadataRetrievalError):
        return "the metadata service gave no credentials", True
    if isinstance(error, BotoCoreError) and type(error).__name__ in _SHOWN:
        return " ".join(str(error).split()).rstrip("."), False
    if isinstance(error, OSError):
        return f"{error.strerror} {error.filename or ''}".strip(), False
    return type(error).__name__, False
