"""Lists what a mirror consists of: topics, groups, lanes and events.

from_links.py  topics, groups and events, from the clusters alone
driver.py      lanes, which only the driver knows; it is asked on this machine
"""

from causeway.operate.listing.driver import items
from causeway.operate.listing.from_links import (
    EventLine,
    Listed,
    event_json,
    events,
    groups,
    narrowed,
    topic_json,
    topic_lines,
    topics,
)
