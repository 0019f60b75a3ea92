"""One folder for each operator: frames in, frames out. Nothing here knows Kafka or Delta."""
