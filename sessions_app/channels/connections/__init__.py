"""Connections over which accounts receive without a public address, kept open by the process `sockets`."""
