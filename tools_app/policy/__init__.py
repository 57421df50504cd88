"""What a tool call may do, decided purely: patterns, bounds of hosts and paths, autonomy, who has which tools."""
