"""Geo-replication without a file: topics of one origin, picked by name, appear on destinations.

remembered.py    where the clusters are, on this machine; no secret is kept
settings.py      the same as the entries of a property file, so that all else is a mirror's
claims.py        whose names are whose, by the clusters' ids
destinations.py  added, described, removed
topics.py        added and removed; control/geo_topics.py is what is written of it
standing.py      how far each topic is
"""
