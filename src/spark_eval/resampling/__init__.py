"""Users of all models aligned in a bucket: cells of segments, products and resampled sums; no pyspark."""
