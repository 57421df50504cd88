"""Clients of the surfaces, one class each."""

from tests.installed.surfaces.base import SurfaceClient
from tests.installed.surfaces.http import AgentMessages, Rest
from tests.installed.surfaces.hub import Hub
from tests.installed.surfaces.other_agents import A2A, AgUi, ZeroClaw
from tests.installed.surfaces.page import Page
from tests.installed.surfaces.sdks import Completions, Mcp, Responses, Threads
from tests.installed.surfaces.webchat import WebChat

CLIENTS: tuple[type[SurfaceClient], ...] = (
    A2A,
    AgentMessages,
    AgUi,
    Completions,
    Hub,
    Mcp,
    Page,
    Responses,
    Rest,
    Threads,
    WebChat,
    ZeroClaw,
)
