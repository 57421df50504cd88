"""The agent-message protocol: an agent run of its clients is a session, and each of its turns is a run."""
