"""One Spark task that relays many partitions: the data path."""
