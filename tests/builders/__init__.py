"""Values that many tests need, with defaults. No broker takes part."""
