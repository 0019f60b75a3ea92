"""What a driver does once, before its first round: claims the pipeline, compares tables, topics and configuration."""
