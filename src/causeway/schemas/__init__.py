"""Schema registries: one is copied into another, or the ids in records are translated."""
