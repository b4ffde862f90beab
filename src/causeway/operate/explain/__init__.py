"""Explains why a topic, partition or group is mirrored or synced, or why not.

rules.py    an explanation, the key of the file that decided, and how to change it: pure
topics.py   makes the explanation of a topic from its facts: pure
groups.py   does the same for a group
known.py    explains a name on each link by the facts, as far as its clusters answer
"""

from causeway.operate.explain.groups import CODES, GroupFacts, explain_group, read_again
from causeway.operate.explain.known import Known, explain
from causeway.operate.explain.rules import Code, Explanation, SubjectKind, as_json_of
from causeway.operate.explain.topics import TopicFacts, explain_topic
