"""The ASGI application: consumers first, then everything else through Django. Works under any ASGI server."""

import itertools
import os
import sys
from typing import Any, cast

import django
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "komand.settings.web")
if settings.DATABASES["default"]["ENGINE"] == "audit_app.kernel.sqlite":
    # The admin theme and Django REST Framework import these fields if they can, and with them psycopg, 9 MB.
    sys.modules.setdefault("django.contrib.postgres.fields", cast(Any, None))
django.setup(set_prefix=False)

# Only after Django is set up: these modules name models.
from audit_app.kernel import liveness  # noqa: E402
from audit_app.kernel.database import in_db  # noqa: E402
from komand import background, middleware, schema_check, sd_notify, warm_up, websocket_origins  # noqa: E402
from sessions_app.channels.inbound import webhook  # noqa: E402
from sessions_app.surfaces.base.surface import most_specific_first  # noqa: E402

django_application = middleware.Handler()
_KEEP_SLASH = ("/admin/", "/static/")
NO_SUCH_PATH = 4404  # WebSocket close code


def without_trailing_slash(path: str) -> str:
    """Return the path without a trailing slash, unless a page needs it. A redirect would lose a POST's body."""
    if len(path) > 1 and path.endswith("/") and not path.startswith(_KEEP_SLASH):
        return path[:-1]
    return path


def routes() -> list[Any]:
    """Return the routes of all consumers: the webhooks of channels, then those of the surfaces."""
    return [*webhook.routes, *(route for surface in most_specific_first() for route in surface.routes())]


def is_websocket(route: Any) -> bool:
    return issubclass(route.callback.consumer_class, AsyncWebsocketConsumer)


async def close_unknown_path(scope: Any, receive: Any, send: Any) -> None:
    """Close a WebSocket of a path that no surface has. Accepted first: only then does a browser see the code."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": NO_SUCH_PATH})


class Application:
    """The ASGI callable: routes by protocol and starts this process's background loops at the first connection."""

    def __init__(self) -> None:
        live = routes()
        websocket = [*filter(is_websocket, live), re_path("", cast(Any, close_unknown_path))]
        http = [*itertools.filterfalse(is_websocket, live), re_path("", cast(Any, django_application))]
        self._router = ProtocolTypeRouter(
            {
                "http": URLRouter(http),
                "websocket": websocket_origins.OriginCheck(URLRouter(websocket)),
                "lifespan": self._lifespan,
            }
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            background.ensure_started()
            scope = {**scope, "path": without_trailing_slash(scope["path"])}
        await self._router(scope, receive, send)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve the ASGI lifespan protocol. Daphne has none: server.py ends the loops itself."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if problem := await in_db(schema_check.find_problem):
                    await send({"type": "lifespan.startup.failed", "message": problem})
                    return
                await in_db(warm_up.warm_up)
                sd_notify.notify_ready()
                sd_notify.show_life(liveness.is_stuck)
                background.ensure_started()
            else:
                await background.stop()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


application = Application()
