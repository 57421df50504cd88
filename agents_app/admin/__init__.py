"""The operators' pages of agents, model providers, runs and approvals."""

from agents_app.admin import agents, approvals, providers, runs

__all__ = ["agents", "approvals", "providers", "runs"]
