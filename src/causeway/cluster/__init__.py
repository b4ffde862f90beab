"""Asks one cluster: topics, groups, offsets, ACLs, producers, transactions."""
