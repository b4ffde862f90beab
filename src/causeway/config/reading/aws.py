"""The options of Amazon's login library for MSK: `software.amazon.msk.auth.iam`.

https://github.com/aws/aws-msk-iam-auth has the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from causeway.config.logins import AwsSettings
from causeway.config.reading.client_reader import ClientReader
from causeway.config.reading.login import unsupported_options
from causeway.config.values import Secret
from causeway.extras import install_extra

MSK_HANDLER: Final = "IAMOAuthBearerLoginCallbackHandler"
"""The login handler, without its package, by which OAUTHBEARER sends tokens for MSK."""

_ROLE = "awsRoleArn"
_TEXTS = {
    "awsProfileName": "profile",
    _ROLE: "role_arn",
    "awsRoleSessionName": "role_session_name",
    "awsRoleExternalId": "role_external_id",
    "awsStsRegion": "sts_region",
}
# As in Amazon's library, other texts than `true` mean no.
_FLAGS = {
    "awsAddDefaultProviders": "default_sources",
    "awsShouldUseFips": "fips",
    "awsDebugCreds": "tells_identity",
}
_NUMBERS = {"awsMaxRetries": "max_retries", "awsMaxBackOffTimeMs": "max_backoff_ms"}
_SECRETS = {
    "awsRoleAccessKeyId": "access_key_id",
    "awsRoleSecretAccessKey": "secret_access_key",
    "awsRoleSessionToken": "session_token",
}
_OWN_REGION = "awsMskRegionProvider"


def aws_settings(reader: ClientReader, key: str, options: Mapping[str, str]) -> AwsSettings | None:
    """Returns the settings in the options of the login module in `key`. None after a problem, which
    goes to the reader's problems."""
    problems = list(_problems(options))
    if find_spec("botocore") is None:
        problems.append(f"IAM logins need the package botocore: {install_extra('aws')}")
    for problem in problems:
        reader.refuse(key, problem)
    if problems:
        return None
    given: dict[str, Any] = {
        **{field: options[name] for name, field in _TEXTS.items() if options.get(name)},
        **{field: options[name] == "true" for name, field in _FLAGS.items() if name in options},
        **{field: int(options[name]) for name, field in _NUMBERS.items() if name in options},
    }
    # Amazon's library uses the keys for the role alone.
    if _ROLE in options and options.get("awsRoleAccessKeyId"):
        given |= {
            field: Secret(options[name]) for name, field in _SECRETS.items() if options.get(name)
        }
    return AwsSettings(**given)


def _problems(options: Mapping[str, str]) -> list[str]:
    found = []
    if _OWN_REGION in options:
        found.append(
            f"{_OWN_REGION} is not supported: the region comes from the broker's name, or else from"
            " AWS_REGION or the profile"
        )
    known = _TEXTS.keys() | _FLAGS.keys() | _NUMBERS.keys() | _SECRETS.keys() | {_OWN_REGION}
    if unknown := options.keys() - known:
        found.append(unsupported_options(unknown))
    found += [
        f"{name} must be a whole number"
        for name in _NUMBERS
        if not options.get(name, "0").isdecimal()
    ]
    if not options.get(_ROLE, "arn:").startswith("arn:"):
        found.append(f"{_ROLE} must be an ARN, which begins with arn:")
    if bool(options.get("awsRoleAccessKeyId")) != bool(options.get("awsRoleSecretAccessKey")):
        found.append("awsRoleAccessKeyId and awsRoleSecretAccessKey go together")
    no_default = options.get("awsAddDefaultProviders", "true") != "true"
    if no_default and not (options.get("awsProfileName") or options.get(_ROLE)):
        found.append(f"awsAddDefaultProviders=false needs awsProfileName or {_ROLE}")
    return found
