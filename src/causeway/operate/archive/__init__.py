"""Archives topics as Parquet files, and restores them to a cluster.

archiving.py writes topics as Parquet, by day
restoring.py writes the topics of an archive to a cluster
store.py     has the files of an archive, and knows which of them count
"""

from causeway.operate.archive.archiving import Archived, archive
from causeway.operate.archive.restoring import Restored, restore
from causeway.operate.archive.store import ArchivedRange, ArchivedTopic, Manifest, Store
