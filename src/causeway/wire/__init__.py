"""Kafka's protocol over plain sockets: connections, and a blocking client for control work."""

import logging

# kafka-python logs whole requests (SASL tokens among them) and warns about what we report
# ourselves, as errors with a cause and a remedy.
logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
