"""The Signal channel, by the daemon of signal-cli."""
