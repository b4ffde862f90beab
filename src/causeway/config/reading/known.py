"""Keys that MirrorMaker 2, Connect and Kafka's clients know. The keys that this version acts on are
in config/keys.py. A warning names each key that is only here: it has no effect, because it is about
how Connect works, or because Causeway does not act on it yet."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TLS_SASL = _names(
    """
    security.protocol security.providers
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
    sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url
    """
)

# With `A.x`, these keys reach every client of cluster A. Without `A.x`, a plain `x` counts.
CLUSTER_KEYS = TLS_SASL | {"bootstrap.servers", "causeway.cluster.id", "causeway.krb5.conf"}

_EVERY_CLIENT = _names(
    """
    bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms
    default.api.timeout.ms enable.metrics.push interceptor.classes metadata.max.age.ms
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms
    retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
    """
)

CONSUMER = CLUSTER_KEYS.union(
    _EVERY_CLIENT,
    _names(
        """
    allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter auto.offset.reset
    check.crcs client.rack
    enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
    group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported
    isolation.level key.deserializer max.partition.fetch.bytes max.poll.interval.ms
    max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode share.acquire.mode value.deserializer
    """
    ),
)
PRODUCER = CLUSTER_KEYS.union(
    _EVERY_CLIENT,
    _names(
        """
    acks auto.include.jmx.reporter batch.size buffer.memory compression.gzip.level
    compression.lz4.level compression.type compression.zstd.level delivery.timeout.ms
    enable.idempotence key.serializer linger.ms max.block.ms max.in.flight.requests.per.connection
    max.request.size metadata.max.idle.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys retries
    transaction.timeout.ms transaction.two.phase.commit.enable transactional.id value.serializer
    """
    ),
)
ADMIN = CLUSTER_KEYS.union(
    _EVERY_CLIENT, ["auto.include.jmx.reporter", "bootstrap.controllers", "retries"]
)
ROLE_KEYS = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}

# Keys of a flow that belong to Connect's connectors.
FLOW = _names(
    """
    config.providers predicates consumer.poll.timeout.ms tasks.max tasks.max.enforce
    forwarding.admin.class forwarding.admin metric.reporters metrics.recording.level
    metric.names.formats auto.include.jmx.reporter connector.class connector.plugin.version name
    config.action.reload errors.log.enable errors.log.include.messages
    errors.retry.delay.max.ms errors.retry.timeout errors.tolerance
    exactly.once.support exactly.once.source.support transaction.boundary
    transaction.boundary.interval.ms offsets.storage.topic add.source.alias.to.metrics
    use.incremental.alter.configs
    """
)

# Keys of Connect's worker: mostly `A.x`, some also at the top level.
WORKER = _names(
    """
    access.control.allow.methods access.control.allow.origin admin.listeners client.dns.lookup
    client.id connect.protocol connections.max.idle.ms connector.client.config.override.policy
    dedicated.mode.enable.internal.rest exactly.once.source.support group.id header.converter
    heartbeat.interval.ms inter.worker.key.generation.algorithm inter.worker.key.size
    inter.worker.key.ttl.ms inter.worker.signature.algorithm inter.worker.verification.algorithms
    config.providers metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    key.converter listeners metadata.max.age.ms metric.reporters metrics.num.samples
    metrics.recording.level metrics.sample.window.ms offset.flush.interval.ms
    offset.flush.timeout.ms plugin.discovery plugin.path rebalance.timeout.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms response.http.headers.config
    rest.advertised.host.name rest.advertised.listener rest.advertised.port rest.extension.classes
    rest.host.name rest.port retry.backoff.max.ms retry.backoff.ms scheduled.rebalance.max.delay.ms
    send.buffer.bytes session.timeout.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms ssl.client.auth topic.tracking.allow.reset
    topic.tracking.enable value.converter worker.sync.timeout.ms worker.unsync.backoff.ms
    """
)
WORKER_PREFIXES = (
    "offset.storage.",
    "config.storage.",
    "status.storage.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "topic.creation.",
    "metrics.context.",
    "listeners.https.",
    "admin.listeners.https.",
    "predicates.",
    "transforms.",
    "worker.",
    "task.",
)

# Keys of a flow or a worker that would change which records are mirrored, or from where.
_NOT_YET = _names("forwarding.admin.class forwarding.admin")

# Replication factors of Connect's own topics. Causeway creates none of them, and every file of a
# small cluster has these keys, so a warning would only disturb.
MOOT = _names(
    """
    offset.storage.replication.factor config.storage.replication.factor
    status.storage.replication.factor
    """
)


def is_worker_key(name: str) -> bool:
    return name in WORKER or name.startswith(WORKER_PREFIXES)


def is_connects_own(name: str) -> bool:
    """Returns whether a flow's or worker's key is about how Connect works, which has no meaning
    here."""
    return (name in FLOW or is_worker_key(name)) and name not in _EVERY_CLIENT | _NOT_YET


# Values that ask for something that Causeway does in any case: no warning.
_BYTE_ARRAYS = {"org.apache.kafka.connect.converters.ByteArrayConverter"}
_BYTES_IN = {"org.apache.kafka.common.serialization.ByteArrayDeserializer"}
_BYTES_OUT = {"org.apache.kafka.common.serialization.ByteArraySerializer"}
AGREED: dict[str, set[str]] = {
    "acks": {"all", "-1"},
    "enable.idempotence": {"true"},
    "enable.auto.commit": {"false"},
    "check.crcs": {"true"},
    "key.converter": _BYTE_ARRAYS,
    "value.converter": _BYTE_ARRAYS,
    "header.converter": _BYTE_ARRAYS,
    "key.deserializer": _BYTES_IN,
    "value.deserializer": _BYTES_IN,
    "key.serializer": _BYTES_OUT,
    "value.serializer": _BYTES_OUT,
    "errors.tolerance": {"none"},
    "exactly.once.source.support": {"enabled", "disabled", "preparing"},
    "ssl.protocol": {"TLS", "TLSv1.2", "TLSv1.3"},
    "ssl.trustmanager.algorithm": {"PKIX"},
    "ssl.keymanager.algorithm": {"SunX509", "PKIX"},
    "sasl.client.callback.handler.class": {
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
    },
    "sasl.oauthbearer.jwt.validator.class": {
        f"org.apache.kafka.common.security.oauthbearer.{name}"
        for name in ("BrokerJwtValidator", "ClientJwtValidator", "DefaultJwtValidator")
    },
    "sasl.login.refresh.window.factor": {"0.8"},
}
