"""The tour: steps beside a chat that show what Komand does, with the demo model."""
