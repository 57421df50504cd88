"""What the admin pages of every layer are built from. Registers no page; `text` and `links` load without the admin."""
