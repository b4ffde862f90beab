"""A producer for two clusters: `DualProducer`, with the interface of confluent-kafka's `Producer`.

    from causeway.producer import DualProducer

    producer = DualProducer({"bootstrap.servers": "east:9092"}, {"bootstrap.servers": "west:9092"},
                            spool="/var/lib/orders/spool")
    producer.produce("orders", value=b"...", key=b"...", on_delivery=told)
    producer.poll(0)
    producer.close()

Each record goes to both clusters, once and in the same order in the same partition
(docs/how-to/two-data-centres.md). Wants the extra `producer`: pip install "causeway[producer]".
"""

from causeway.errors import PrerequisiteError

try:
    import confluent_kafka  # noqa: F401
except ImportError as error:
    raise PrerequisiteError(
        "import",
        "causeway.producer",
        "confluent-kafka is not installed",
        remedy='pip install "causeway[producer]"',
    ) from error

from causeway.producer.aio import AsyncDualProducer
from causeway.producer.dual import DualProducer
from causeway.producer.ids import ID_HEADER

__all__ = ["ID_HEADER", "AsyncDualProducer", "DualProducer"]
