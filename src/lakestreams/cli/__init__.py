"""The `lakestreams` command: thin. Each command has a file; `app` has their arguments, `screen` how things are shown."""
