"""The driver: leads links, launches lanes on Spark, hands them partitions, keeps the status."""
