"""Channels: accounts and routes, and the inbound and outbound sides."""
