"""Geo-replication without a file: topics of one origin, chosen by name, are copied to destinations.

local_file.py          the addresses of the clusters, on this machine; it keeps no secret
settings.py            the same as the settings of a mirror
claims.py              which cluster each name means, by cluster ids
destinations.py        add and remove destinations
topics.py              add, remove, pause and resume topics
destination_status.py  the status of each chosen topic
"""

from causeway.geo.claims import cluster_id
from causeway.geo.destination_status import ChosenTopicStatus, Destination, look_at
from causeway.geo.destinations import (
    Added,
    add_destination,
    remove_destination,
    unreachable_destinations,
)
from causeway.geo.local_file import (
    GEO_FILE_VARIABLE,
    GeoFile,
    change_geo_file,
    cluster_address,
    default_path,
    parse_origin,
    read_geo_file,
)
from causeway.geo.settings import as_properties, client_of, link_to, settings_of
from causeway.geo.topics import (
    MOST_TOPICS,
    ChosenTopicChange,
    Done,
    add_topics,
    available_topics,
    pause_topics,
    remove_topics,
    resume_topics,
    target_of,
)
