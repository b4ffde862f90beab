"""The partitions of one link: found, claimed, handed out, and what is known of each."""
