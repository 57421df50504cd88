"""The Microsoft Teams channel, by the Bot Framework."""
