"""The configuration of logging, for processes with and without Django."""

from typing import Any

from komand.settings import env

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def configuration() -> dict[str, Any]:
    """Return the configuration of logging, in the form of `logging.config.dictConfig`."""
    console = {
        "class": "logging.StreamHandler",
        "formatter": env.choice("KOMAND_LOG_FORMAT", "text", ("text", "json")),
        "filters": ["context"],
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"context": {"()": "komand.logs.ContextFilter"}, "refusals": {"()": "komand.logs.RefusalFilter"}},
        "formatters": {"text": {"()": "komand.logs.TextFormatter"}, "json": {"()": "komand.logs.JsonFormatter"}},
        "handlers": {"console": console},
        "root": {"handlers": ["console"], "level": env.choice("KOMAND_LOG_LEVEL", "INFO", _LEVELS)},
        # At INFO, the servers (daphne, uvicorn) would log the query of each WebSocket, which may contain a token.
        "loggers": {
            name: {"level": "WARNING"}
            for name in ("httpx2", "mcp", "openai", "celery", "axes", "daphne", "uvicorn.error", "asyncio")
        }
        | {"django.request": {"filters": ["refusals"]}},
    }
