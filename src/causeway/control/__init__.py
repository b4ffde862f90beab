"""What is mirrored besides records: one module a thing, each observes, plans purely, applies."""
