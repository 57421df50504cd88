"""Backups of a whole installation: database, files and secrets in one folder (docs/operations.md)."""
