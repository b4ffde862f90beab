"""Reads, builds, merges and splits Kafka's record batches. It knows nothing of connections."""

from causeway.records.batches import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER,
    SEQUENCE_SPACE,
    TRANSACTIONAL,
    Batch,
    BatchHeader,
    advance,
    checksum,
    distance,
    fast_tuple,
    frames,
    header,
    read,
)
from causeway.records.codec import (
    MERGED_BYTES,
    MERGED_RECORDS,
    SMALL_BATCH,
    UNPACKED_BYTES,
    Record,
    as_is,
    build,
    clip,
    cut,
    decode,
    decode_legacy,
    densify,
    join,
    merge,
    pack,
    part_of,
    records_of,
    unpacked_size,
)
from causeway.records.compress import GZIP, LZ4, SNAPPY, ZSTD
from causeway.records.filler import FILLER_KEY, FILLER_RECORDS, filler
from causeway.records.keep import ANY_CODEC, NOTHING, Kept, Unread, keep, newest
from causeway.records.plain import PlainRecord
from causeway.records.repack import repack
from causeway.records.runs import Gap, dense_runs
from causeway.records.unpack import keep_freed_memory, unpacked_total
