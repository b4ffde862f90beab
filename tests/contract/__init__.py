"""The answers of real brokers on which Causeway relies. Simulated brokers must give the same."""
