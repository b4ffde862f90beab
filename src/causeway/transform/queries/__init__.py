"""Queries carried out by the source worker itself, on records of a plain form; see 0030."""
