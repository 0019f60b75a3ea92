"""The `lakestreams` command. Each command has a file; `app` and `options` hold their arguments, `screen` the output."""
