"""Attacks on the running product, and what holds them off."""
