"""The end of a mirror, and the way back: promote (clean), failover (now), failback.

No state file: each step is read off the clusters, so that a second call goes on where the first
ended. What is decided stands in the directives topic of the link on its target.

    end stands ─► lanes let go ─► cut ─► groups, read-only lifted ─► done
    │             a driver's word, or the lead taken from it         │
    └ nobody mirrors what has ended, also who starts later           └ a second call changes nothing
"""
