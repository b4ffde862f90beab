"""Shows the result of a transform on real records, without writing any."""
