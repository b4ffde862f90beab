"""The answers of real brokers on which Causeway relies, and simulated brokers held against them."""
