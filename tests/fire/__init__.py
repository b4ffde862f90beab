"""A long random fire (`make fire`): two clusters of three brokers, a mirror with two drivers
between them, live applications. All of them are broken and changed at random, and an independent
reader counts at the end.

    topics      the topics, and the content that a reader of the mirror must find
    sites       a cluster of three brokers behind proxies
    writers     applications that write
    groups      members of consumer groups
    applications  all applications: who writes what, and which groups read
    tape        the independent reader: all that it ever read of one cluster
    mirror      the file, two drivers, and commands for them
    actions     each action that the fire takes at random
    moves       one topic fails over, or is promoted, and fails back
    pauses      the mirror's pauses
    checker     the comparison at the end
    table       the result as Markdown
    run         all of it, in order
"""
