"""Tables of agents_app, one module per subject."""

from agents_app.models.agents import Agent
from agents_app.models.costs import CostAlert, CostTotal, DailyUsage, ModelPrice, Spending, UserCostCap
from agents_app.models.networks import NetworkVersion, StoredNetwork
from agents_app.models.providers import DEMO, ModelProvider
from agents_app.models.recall import RunRecall
from agents_app.models.run_messages import RunMessage
from agents_app.models.runs import (
    ACTIVE,
    CAN_ADOPT,
    ENDED_BADLY,
    IS_ACTIVE,
    IS_OPEN,
    IS_ROOT,
    IS_UNCOLLECTED,
    IS_WORKING,
    ON_PERSON,
    OPEN,
    Run,
    Step,
    children_of,
    held_above,
    lock_open_below,
)
from agents_app.models.templates import PromptTemplate, PromptTemplateVersion
from agents_app.models.versions import AgentVersion

__all__ = [
    "ACTIVE",
    "Agent",
    "AgentVersion",
    "CostAlert",
    "CostTotal",
    "DEMO",
    "DailyUsage",
    "ENDED_BADLY",
    "CAN_ADOPT",
    "IS_ACTIVE",
    "IS_OPEN",
    "IS_ROOT",
    "IS_UNCOLLECTED",
    "IS_WORKING",
    "ON_PERSON",
    "children_of",
    "held_above",
    "lock_open_below",
    "ModelPrice",
    "ModelProvider",
    "NetworkVersion",
    "OPEN",
    "PromptTemplate",
    "PromptTemplateVersion",
    "Run",
    "RunMessage",
    "RunRecall",
    "Spending",
    "Step",
    "StoredNetwork",
    "UserCostCap",
]
