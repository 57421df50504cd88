"""The OpenAPI document of all surfaces, served at /api/schema and as a page at /api/docs."""
