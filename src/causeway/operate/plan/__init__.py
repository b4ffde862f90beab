"""The dry run: the topics that `causeway run` would mirror, create and change.

planning.py         asks the clusters of every link, and decides with the code of the driver
offsets.py          the rights that keeping offsets needs, and that are missing
starts.py           the offset at which a run would start each partition
transforms.py       the transforms of the file, checked by Spark
internal_topics.py  the topics that a run creates besides the mirrors
conflicts.py        loops, and topics that other flows write as well
link_plan.py        the plan of a link, and its JSON
"""

from causeway.operate.plan.internal_topics import OwnTopic
from causeway.operate.plan.link_plan import LinkPlan, Plan, as_json
from causeway.operate.plan.offsets import KeptOffsets
from causeway.operate.plan.planning import plan
from causeway.operate.plan.starts import How, Start
from causeway.operate.plan.transforms import TransformPlan
