"""The inbound side of channels: the webhook, access, commands, albums and button presses."""
