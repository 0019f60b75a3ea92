"""The schema registry: how it is reached, and the few questions that are put to it. Without Spark."""

from lakestreams.registry.client import Reference, Registered, Registry, Schema
from lakestreams.registry.options import RegistryOptions

__all__ = ["Reference", "Registered", "Registry", "RegistryOptions", "Schema"]
