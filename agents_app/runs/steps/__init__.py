"""What acts: one module a kind of step that does more than write rows."""
