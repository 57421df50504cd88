"""The Slack channel, by the Web API, and the Events API or Socket Mode."""
