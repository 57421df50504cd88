"""The MCP endpoint with the suite's fixtures, for a user of a new database. Imported after the set-up of Django."""

import logging
import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.mcp.consumers import McpEndpoint


def make() -> Any:
    """Return the endpoint, to which each request brings a key: the suite cannot send one."""
    logging.disable(logging.INFO)
    settings.KOMAND_MCP_OFFERS = [*settings.KOMAND_MCP_OFFERS, "tests.conformance.fixtures"]
    call_command("migrate", verbosity=0)
    user = User.objects.create_user("suite", "suite@example.org", secrets.token_hex())
    key, application = create_api_key(user, "suite", scopes=["mcp"]).key, McpEndpoint.as_asgi()

    async def endpoint(scope: dict[str, Any], receive: Any, send: Any) -> None:
        credential = (b"authorization", f"Bearer {key}".encode())
        await application({**scope, "headers": [*scope["headers"], credential]}, receive, send)

    return endpoint
