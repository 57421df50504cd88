"""The Discord channel: the Gateway and interactions in, the HTTP API out."""
