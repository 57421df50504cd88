"""Channels: the contract of adapters, the adapters, and the inbound and outbound sides."""
