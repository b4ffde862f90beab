"""Explains why a topic, partition or group is mirrored or synced, or why not.

rules.py    an explanation, which key of the file decided, and what to change there: pure
topics.py   from the facts of a topic to its explanation: pure
groups.py   the same for a group
known.py    explains a name on each link by the facts, as far as its clusters answer
"""

from causeway.operate.explain.groups import CODES, GroupFacts, explain_group, read_again
from causeway.operate.explain.known import Known, explain
from causeway.operate.explain.rules import Code, Explanation, SubjectKind, as_json_of
from causeway.operate.explain.topics import TopicFacts, explain_topic
