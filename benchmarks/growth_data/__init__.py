"""A month of traffic, and the cost of everyday operations in a database with it."""
