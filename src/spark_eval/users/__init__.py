"""Per-user tables: users of all models aligned in buckets, cells of segments, resampled sums."""
