"""Streams of model servers: see README.md."""
