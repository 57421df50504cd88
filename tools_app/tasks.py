"""Celery entry points of tools_app."""
