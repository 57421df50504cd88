"""Sessions and their turns: created, extended by messages, completed by runs."""
