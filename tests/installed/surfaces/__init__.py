"""Clients of the surfaces, one class each."""

from tests.installed.surfaces.base import SurfaceClient
from tests.installed.surfaces.http import AgentMessages, Rest
from tests.installed.surfaces.hub import Hub
from tests.installed.surfaces.sdks import Completions, Mcp, Responses, Threads
from tests.installed.surfaces.webchat import WebChat

CLIENTS: tuple[type[SurfaceClient], ...] = (AgentMessages, Completions, Hub, Mcp, Responses, Rest, Threads, WebChat)
