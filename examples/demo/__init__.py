"""`make demo`: a year of flights, mirrored while you watch, and the proof that all arrived."""
