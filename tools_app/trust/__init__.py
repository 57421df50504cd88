"""What a call has to pass and what proves it: the gate, grants, budgets, the emergency stop, receipts, secrets."""
