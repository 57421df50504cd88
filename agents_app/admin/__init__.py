"""The operators' pages of agents, model providers and runs."""

from agents_app.admin import agents, providers, runs

__all__ = ["agents", "providers", "runs"]
