"""The status of links, topics and partitions, for driver, commands, API and page."""
