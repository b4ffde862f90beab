"""Archives topics to Parquet, by day, and restores them."""
