"""How a surface describes its routes for the OpenAPI document (`komand.openapi`). Loaded when it is asked for."""
