"""The Komand server: settings, routing, processes and the OpenAPI document."""

__version__ = "0.3.0"
