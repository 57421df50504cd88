"""Sessions and their turns: opened, added to by people, completed by runs."""
