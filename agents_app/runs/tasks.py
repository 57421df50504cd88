"""Celery entry points of agents_app."""
