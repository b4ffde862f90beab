"""Programs that show Causeway at work."""
