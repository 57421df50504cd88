"""Authorization of tool calls: patterns, rules about hosts and paths, autonomy, budgets, grants, the emergency stop."""
