"""Join kernels: one file a shape, DataFrames in, DataFrames out. Nothing here knows Kafka or Delta."""
