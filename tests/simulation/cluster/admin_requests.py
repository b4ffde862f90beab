"""Access control lists: the clusters have no authorizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse

from tests.simulation.cluster.errors import SECURITY_DISABLED

if TYPE_CHECKING:
    from tests.simulation.cluster.node import BrokerNode

_TEXT = "No Authorizer is configured."


def describe_acls(_: BrokerNode, __: Any, respond: Callable[[Any], None]) -> None:
    respond(
        DescribeAclsResponse(
            throttle_time_ms=0, error_code=SECURITY_DISABLED, error_message=_TEXT, resources=[]
        )
    )


def create_acls(_: BrokerNode, request: Any, respond: Callable[[Any], None]) -> None:
    kind = CreateAclsResponse.AclCreationResult
    results = [kind(error_code=SECURITY_DISABLED, error_message=_TEXT) for _ in request.creations]
    respond(CreateAclsResponse(throttle_time_ms=0, results=results))


def delete_acls(_: BrokerNode, request: Any, respond: Callable[[Any], None]) -> None:
    kind = DeleteAclsResponse.DeleteAclsFilterResult
    results = [
        kind(error_code=SECURITY_DISABLED, error_message=_TEXT, matching_acls=[])
        for _ in request.filters
    ]
    respond(DeleteAclsResponse(throttle_time_ms=0, filter_results=results))
