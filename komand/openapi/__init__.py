"""The OpenAPI document: found in the routes, told by the surfaces, served at /api/schema and as a page at /api/docs."""
