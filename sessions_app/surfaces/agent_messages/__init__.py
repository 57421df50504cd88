"""The agent-message protocol: an agent run of its clients is a session here, each turn of the user one run of ours."""
