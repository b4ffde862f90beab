"""What the tests share: an independent Kafka client, waiting by condition, a proxy that stalls."""
