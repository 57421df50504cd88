"""This surface in the OpenAPI document."""
