"""Local Kafka: real KRaft brokers and MirrorMaker 2 as child processes.

The demo, the benchmark and the tests all stand on this package. Nothing of it is needed to mirror.
"""
