"""Attached files: fetched by a worker, stored in the data folder, described as text for the model."""
