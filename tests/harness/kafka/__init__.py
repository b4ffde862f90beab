"""Local Kafka with logins and certificates, and MirrorMaker 2, for tests and benchmarks."""
