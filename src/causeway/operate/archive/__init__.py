"""Archives topics as Parquet files, and restores them to a cluster.

archiving.py topics to Parquet, by day
restoring.py the topics of an archive to a cluster
store.py     the files of an archive, and which of them count
"""

from causeway.operate.archive.archiving import Archived, archive
from causeway.operate.archive.restoring import Restored, restore
from causeway.operate.archive.store import ArchivedRange, ArchivedTopic, Manifest, Store
