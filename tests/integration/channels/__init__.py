"""Integration tests of channels."""
