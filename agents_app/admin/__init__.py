"""The operators' pages of agents, model providers, runs and approvals."""

from agents_app.admin import agents, approvals, control, costs, networks, prompt_templates, providers, runs

__all__ = ["agents", "approvals", "control", "costs", "networks", "prompt_templates", "providers", "runs"]
