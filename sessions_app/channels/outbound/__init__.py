"""The outbound side of channels: the outbox, its sender, and previews of unfinished answers."""
