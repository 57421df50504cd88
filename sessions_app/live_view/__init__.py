"""The live view of one session: stored events merged with live text, without gaps or duplicates. Use `viewer`."""
