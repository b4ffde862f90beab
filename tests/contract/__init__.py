"""The answers of real brokers on which Causeway relies, and simulated brokers held against them.

Accepted differences of the simulated brokers, with their reasons:

- Fewer versions of some APIs (test_versions.py): of those, Causeway calls none.
- No JoinGroup and its like: Causeway joins no group. Tests give groups members by hand.
- No logins and no authorizer: clusters of simulations are open.
- No internal topics: the states of coordinators are no logs.
- No cleaner at work: tests say when a log is compacted.
- The last replica that stops stays in sync (Kafka: an eligible leader, KIP-966): the same replica
  leads again.
- Other texts of errors: Causeway decides by codes.
"""
