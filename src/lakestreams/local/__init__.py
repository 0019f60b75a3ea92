"""Parts for one machine: connector jars, a real broker, a Spark session. Never imported on Databricks.

The only room of the package that starts processes, downloads jars or touches the user's cache folder.
"""
