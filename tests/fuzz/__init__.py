"""A fuzz test of the HTTP API, generated from the OpenAPI document."""
