"""`causeway status FILE`: where every partition stands."""
