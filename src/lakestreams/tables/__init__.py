"""Tables that are made of streams and of tables: aggregations, windows, buffers. Frames in, frames out, as in `joins`."""
