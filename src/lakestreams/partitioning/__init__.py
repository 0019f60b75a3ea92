"""How topics are partitioned, judged from their records: by which partitioner, keys in two partitions, skew."""
