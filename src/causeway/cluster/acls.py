"""Reads and changes ACLs in bulk. Resources and operations have the names of Kafka's enums."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from causeway.cluster.client import ClusterClient
from causeway.errors import BrokerError, CausewayError
from causeway.wire import Deadline, apis, error_in, raise_error

BINDINGS_A_REQUEST = 1_000
_SECURITY_DISABLED = 54
# The number of a constant of org.apache.kafka.common.{resource,acl} is its index here.
_RESOURCE_TYPES = (
    "UNKNOWN",
    "ANY",
    "TOPIC",
    "GROUP",
    "CLUSTER",
    "TRANSACTIONAL_ID",
    "DELEGATION_TOKEN",
    "USER",
)
_PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
OPERATIONS = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")


@dataclass(frozen=True, slots=True, kw_only=True)
class AclBinding:
    """One rule: `permission` (ALLOW or DENY) for `principal` (`User:ann`, `User:*`) from `host`
    (`*` for all) to do `operation` on the resource `name`. With `pattern` PREFIXED, the rule is for
    all names that begin with `name`. A LITERAL `*` means each name."""

    resource_type: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.operation} on {self.pattern} {self.resource_type} {self.name}"
            f" for {self.principal} from {self.host}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects rules. None and ANY match all. The `pattern` MATCH selects all rules that apply to
    `name`."""

    resource_type: str = "ANY"
    name: str | None = None
    pattern: str = "ANY"
    principal: str | None = None
    host: str | None = None
    operation: str = "ANY"
    permission: str = "ANY"


ANY_TOPIC = AclFilter(resource_type="TOPIC")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityDisabled:
    """The answer of a cluster without an authorizer: it has no rules, and allows everything."""

    cluster: str


def describe_acls(
    cluster: ClusterClient, which: AclFilter = ANY_TOPIC, node_id: int | None = None
) -> frozenset[AclBinding] | SecurityDisabled:
    """Returns the rules that broker `node_id` applies (any broker if None). Raises
    AuthorizationError without DESCRIBE on the cluster."""
    request = DescribeAclsRequest(*_as_sent(which), min_version=apis.DESCRIBE_ACLS.lowest)
    answer = cluster.call(request, node_id)
    if answer.error_code == _SECURITY_DISABLED:
        return SecurityDisabled(cluster=str(cluster))
    raise_error(answer, "list the ACLs of", str(cluster), "DESCRIBE on the cluster")
    return frozenset(
        AclBinding(
            resource_type=_name(_RESOURCE_TYPES, resource.resource_type),
            name=resource.resource_name,
            pattern=_name(_PATTERNS, resource.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=_name(OPERATIONS, acl.operation),
            permission=_name(_PERMISSIONS, acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


def _as_sent(rule: AclBinding | AclFilter) -> tuple[int | str | None, ...]:
    """Returns the fields of a rule, in the order that all requests have."""
    return (
        _RESOURCE_TYPES.index(rule.resource_type),
        rule.name,
        _PATTERNS.index(rule.pattern),
        rule.principal,
        rule.host,
        OPERATIONS.index(rule.operation),
        _PERMISSIONS.index(rule.permission),
    )


def _name(names: tuple[str, ...], number: int) -> str:
    """Returns the name of a constant; UNKNOWN if only newer brokers know the number."""
    return names[number] if 0 <= number < len(names) else names[0]


def create_acls(
    cluster: ClusterClient, bindings: Collection[AclBinding]
) -> dict[AclBinding, CausewayError | None] | SecurityDisabled:
    """Adds rules. None if it is done; a rule that exists already counts as done."""
    lowest = apis.CREATE_ACLS.lowest
    return _change_each(
        cluster,
        "create ACL",
        bindings,
        lambda rules: CreateAclsRequest(creations=rules, min_version=lowest),
        attrgetter("results"),
    )


def delete_acls(
    cluster: ClusterClient, bindings: Collection[AclBinding]
) -> dict[AclBinding, CausewayError | None] | SecurityDisabled:
    """Deletes exactly these rules. None if it is done; a rule that does not exist counts as
    done."""
    lowest = apis.DELETE_ACLS.lowest
    return _change_each(
        cluster,
        "delete ACL",
        bindings,
        lambda rules: DeleteAclsRequest(filters=rules, min_version=lowest),
        attrgetter("filter_results"),
    )


def _change_each(
    cluster: ClusterClient,
    operation: str,
    bindings: Collection[AclBinding],
    request: Callable[[list[Any]], Any],
    results_of: Callable[[Any], Collection[Any]],
) -> dict[AclBinding, CausewayError | None] | SecurityDisabled:
    """Does one operation on many rules, in chunks, and retries it for single rules. Answers have
    the order of the request. To do it twice does no harm."""

    def error_of(binding: AclBinding, result: Any) -> CausewayError | None:
        for each in (result, *getattr(result, "matching_acls", ())):
            error = error_in(each, operation, f"{binding} on {cluster}", "ALTER on the cluster")
            if error is not None:
                return error
        return None

    def attempt(
        left: list[AclBinding], deadline: Deadline
    ) -> dict[AclBinding, CausewayError | None]:
        results: dict[AclBinding, CausewayError | None] = {}
        for start in range(0, len(left), BINDINGS_A_REQUEST):
            chunk = left[start : start + BINDINGS_A_REQUEST]
            answer = cluster.once(request(list(map(_as_sent, chunk))), None, deadline)
            results |= {
                each: error_of(each, result)
                for each, result in zip(chunk, results_of(answer), strict=True)
            }
        return results

    found = cluster.retry_each(bindings, attempt)
    for error in found.values():
        if isinstance(error, BrokerError) and error.code == _SECURITY_DISABLED:
            return SecurityDisabled(cluster=str(cluster))
    return found
