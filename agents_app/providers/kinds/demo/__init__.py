"""What the demo provider knows and decides, as pure functions of the messages."""
