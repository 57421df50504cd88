"""Tries what the OpenAPI document says against a running Komand, by machine."""
