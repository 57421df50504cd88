"""Platforms: messages, the contract of adapters, and the adapters. Imports nothing of the rest of the app."""
