"""Why a topic, partition or group is mirrored or synced, or not.

values.py   an explanation, and its JSON
rules.py    which key of the file decided, where it stands, what to change there: pure
topics.py   from what is known of a topic to its explanation: pure
groups.py   the same of a group
ask.py      what the clusters know
"""
