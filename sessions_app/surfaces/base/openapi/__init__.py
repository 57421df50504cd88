"""The vocabulary in which views and consumers declare their operations."""
