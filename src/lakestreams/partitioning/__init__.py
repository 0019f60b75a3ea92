"""Judges from records how topics are partitioned: by which partitioner, keys in two partitions, skew."""
