"""Tables of what a mirror is made of: a line a topic, group, lane or event.

Topics, groups and events are known to the clusters; lanes only to the driver, which is asked where
it runs on this machine.
"""
