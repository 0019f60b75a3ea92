"""Parts for one machine: connector jars, a real broker, a Spark session. Databricks never imports them.

The only room of the package that starts processes, downloads jars or touches the user's cache folder.
"""
