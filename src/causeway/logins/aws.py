"""Logins to Amazon MSK by IAM: the message of AWS_MSK_IAM, and the token of OAUTHBEARER.

Both are the request `kafka-cluster:Connect`, signed for 15 minutes (Signature Version 4, in the
query). AWS_MSK_IAM sends it to the broker that the request names, as JSON; the token is the URL of
a request to the region. The formats are those of https://github.com/aws/aws-msk-iam-auth.

Each login gets a signature, which needs no request. Credentials are kept: see aws_credentials.py.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from causeway import __version__
from causeway.config import AwsSettings
from causeway.errors import for_cluster
from causeway.logins.aws_credentials import AwsLogin, aws_login

_SERVICE: Final = "kafka-cluster"
LIFE_S: Final = 900
"""The time for which a signature is valid."""

_USER_AGENT: Final = f"causeway/{__version__}"
# b-1.NAME.ID.c2.kafka.REGION.amazonaws.com, boot-ID.c1.kafka-serverless.REGION.amazonaws.com.cn
_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z]{2,}(?:-[a-z]+)+-\d+)\.")


class IamMechanism:
    """AWS_MSK_IAM: one message of ours, and one of the broker."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._done = False

    def auth_bytes(self) -> bytes:
        return self._payload

    def receive(self, auth_bytes: bytes) -> None:
        """Raises ValueError unless the broker's message is a JSON object, with the request's id."""
        if not isinstance(json.loads(auth_bytes), dict):
            raise ValueError  # noqa: TRY004 - the broker's value, not a caller's type
        self._done = True

    def is_done(self) -> bool:
        return self._done

    def is_authenticated(self) -> bool:
        return self._done


def iam_payload(settings: AwsSettings, alias: str, host: str, timeout_s: float) -> bytes:
    """Returns the message of AWS_MSK_IAM for broker `host` of cluster `alias`.

    Raises AuthenticationError without credentials or region, UnreachableError if the service that
    gives the credentials does not answer, PrerequisiteError without botocore.
    """
    login, host = _login(settings, alias), host.lower()  # the signature has it in lower case
    region = region_of(host) or login.region(alias, host)
    url = _signed(login.credentials(alias, timeout_s), host, region)
    query = parse_qsl(urlsplit(url).query, keep_blank_values=True)
    fields = {name.lower(): value for name, value in query}
    fields |= {"version": "2020_10_22", "host": host, "user-agent": _USER_AGENT}
    return json.dumps(fields).encode()


def iam_token(settings: AwsSettings, alias: str, host: str, timeout_s: float) -> str:
    """Returns the token of OAUTHBEARER for the region of broker `host`. Raises like
    `iam_payload`."""
    login = _login(settings, alias)
    region = region_of(host) or login.region(alias, host)
    service = f"kafka.{region}.amazonaws.com"
    url = _signed(login.credentials(alias, timeout_s), service, region)
    url += f"&User-Agent={quote(_USER_AGENT, safe='')}"
    return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def region_of(host: str) -> str | None:
    """Returns the region in the name of a broker of MSK. None for other names."""
    match = _BROKER.search(host.lower())
    return match[1] if match else None


def _login(settings: AwsSettings, alias: str) -> AwsLogin:
    with for_cluster(alias):
        return aws_login(settings)


def _signed(credentials: Any, host: str, region: str) -> str:
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest

    address = f"[{host}]" if ":" in host else host
    request = AWSRequest(
        method="GET", url=f"https://{address}/", params={"Action": f"{_SERVICE}:Connect"}
    )
    SigV4QueryAuth(credentials, _SERVICE, region, expires=LIFE_S).add_auth(request)
    return str(request.url)
