"""What keeps up besides the records, each on a schedule of its own, while a link is led."""
