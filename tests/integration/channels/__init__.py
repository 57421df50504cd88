"""Channels, whole."""
