"""The keys of Kafka's clients that this version acts on: beside keys.py, one table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from causeway.config.keys import Keys, key
from causeway.config.values import INT_MAX, LONG_MAX, Count, Millis, Size, Text, whole, word

MetadataAge = Annotated[int, whole(0, LONG_MAX)]
SocketBytes = Annotated[int, whole(1, INT_MAX, (-1,))]


class ClientKeys(Keys):
    """Of any client: `A.consumer.key`, `A.producer.key`, `A.admin.key`."""

    client_id: Text = key("client.id", "causeway", "Shown in the brokers' logs and quotas.")
    request_timeout_ms: Millis = key("request.timeout.ms", 30_000, "For a broker's answer.")
    connect_timeout_ms: Millis = key(
        "socket.connection.setup.timeout.ms", 10_000, "For opening a connection."
    )
    receive_buffer_bytes: SocketBytes = key(
        "receive.buffer.bytes",
        -1,
        "What a socket's receive buffer holds; -1: as the kernel sees fit, also for far clusters.",
    )
    send_buffer_bytes: SocketBytes = key(
        "send.buffer.bytes", -1, "What its send buffer holds; -1: likewise."
    )


class ConsumerKeys(Keys):
    """Of the reader of a flow: `A.consumer.key`."""

    isolation_level: Annotated[
        Literal["read_committed", "read_uncommitted"], BeforeValidator(word)
    ] = key("isolation.level", "read_committed", "Whether aborted and open transactions are read.")
    auto_offset_reset: Annotated[Literal["earliest", "latest"], BeforeValidator(word)] = key(
        "auto.offset.reset",
        "earliest",
        "Where a partition starts that was never mirrored. With `latest`, topics and partitions"
        " that come into being while the mirror runs still start at their first record.",
    )
    fetch_max_wait_ms: Size = key(
        "fetch.max.wait.ms", 500, "How long a broker may wait for fetch.min.bytes."
    )
    fetch_min_bytes: Size = key("fetch.min.bytes", 1, "Least bytes of a fetch answer.")
    fetch_max_bytes: Count = key("fetch.max.bytes", 50 << 20, "Most bytes of a fetch answer.")
    max_partition_fetch_bytes: Count | None = key(
        "max.partition.fetch.bytes",
        None,
        "Most bytes of a partition in a fetch answer. Default: 2 to 4 MiB, up to 32 far away.",
    )
    metadata_max_age_ms: MetadataAge = key(
        "metadata.max.age.ms",
        300_000,
        "After this time at the latest, another broker is asked which brokers lead the partitions"
        " that are read.",
    )


class ProducerKeys(Keys):
    """Keys of a flow's writer: `A.producer.key`."""

    max_request_size: Count | None = key(
        "max.request.size",
        None,
        "The most bytes of a request that holds records. Larger batches are sent in parts; a single"
        " record that is larger is sent all the same. Default: 4 MiB, or less once a broker has"
        " closed connections after large requests.",
    )


CLUSTER_ID = "causeway.cluster.id"
# Client keys that decide how a cluster is reached: `A.key`, or `key` for all clusters.
SECURITY = {
    "bootstrap.servers": "host:port of some brokers, comma-separated.",
    CLUSTER_ID: "The cluster's id: brokers of another cluster are refused. Default: the id in the"
    " progress topic.",
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
    "sasl.jaas.config": "Login module and its options, as for Java clients.",
    "sasl.oauthbearer.token.endpoint.url": "Where tokens are fetched from (https).",
    "sasl.oauthbearer.client.credentials.client.id": "OAuth client.",
    "sasl.oauthbearer.client.credentials.client.secret": "Its secret.",
    "sasl.oauthbearer.scope": "Scope to ask for.",
    "ssl.truststore.location": "File of trusted certificates. Default: the system's.",
    "ssl.truststore.password": "Its password (JKS, PKCS12).",
    "ssl.truststore.type": "JKS, PKCS12 or PEM.",
    "ssl.truststore.certificates": "Trusted certificates as PEM text.",
    "ssl.keystore.location": "File with the client's key and certificate chain.",
    "ssl.keystore.password": "Its password (JKS, PKCS12).",
    "ssl.keystore.type": "JKS, PKCS12 or PEM.",
    "ssl.keystore.key": "Private key as PEM text.",
    "ssl.keystore.certificate.chain": "Its certificate chain as PEM text.",
    "ssl.key.password": "Password of the private key.",
    "ssl.enabled.protocols": "TLSv1.2, TLSv1.3 or both; older versions are never used.",
    "ssl.endpoint.identification.algorithm": "https: the broker's certificate must name its"
    " host. Empty lets anybody pass for a broker who has any certificate that is trusted.",
}
