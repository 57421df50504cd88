"""What goes out through channels: the rows of the outbox, who sends them, and previews of answers under way."""
