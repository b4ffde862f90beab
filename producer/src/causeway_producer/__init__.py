"""A producer that writes each record to two Kafka clusters.

    from causeway_producer import DualProducer

    with DualProducer({"bootstrap.servers": "east:9092"}, {"bootstrap.servers": "west:9092"},
                      spool="/var/lib/orders/spool") as producer:
        producer.produce("orders", key=b"customer 7", value=b"...", on_delivery=delivered)
        producer.poll(0)

`DualProducer` has the interface of confluent-kafka's `Producer`. Each record arrives once on each
side, in the same partition and in the same order: docs/how-to/two-data-centres.md says what is
promised.
"""

from causeway_producer.aio import AsyncDualProducer
from causeway_producer.dual import DualProducer
from causeway_producer.errors import DualProducerError, SettingsError, SpoolInUseError
from causeway_producer.records import ID_HEADER

__all__ = [
    "ID_HEADER",
    "AsyncDualProducer",
    "DualProducer",
    "DualProducerError",
    "SettingsError",
    "SpoolInUseError",
]
__version__ = "0.1.0"
