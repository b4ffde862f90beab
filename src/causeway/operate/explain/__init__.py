"""Explains why a topic, partition or group is mirrored or synced, or why not.

values.py   an explanation, and its JSON
rules.py    which key of the file decided, its place in the file, what to change there: pure
topics.py   from the facts of a topic to its explanation: pure
groups.py   the same for a group
known.py    the facts of one link, as far as its clusters answer
ask.py      explains a name on each link
"""

from causeway.operate.explain.ask import explain
from causeway.operate.explain.groups import CODES, GroupFacts, explain_group
from causeway.operate.explain.known import Known
from causeway.operate.explain.topics import TopicFacts, explain_topic
from causeway.operate.explain.values import Code, Explanation, SubjectKind, as_json_of
