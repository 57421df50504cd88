"""A month of traffic, and what everyday acts cost in a database that holds it."""
