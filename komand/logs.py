"""Log formatters that add actor and request id: text for people, JSON for machines.

Secrets are masked, and control characters of messages are escaped. Tracebacks keep their lines.
"""

import json
import logging
from datetime import UTC, datetime

from audit_app.kernel import context, redact


class ContextFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.komand = context.current()
        return True


class RefusalFilter(logging.Filter):
    """Keeps refused requests to one line: a traceback is for errors of the server."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            record.exc_info = None
        return True


# Texts of users come into messages: they must not begin a line of their own, nor control a terminal.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)} | {10: "\\n"}


def _line(record: logging.LogRecord, formatter: logging.Formatter) -> str:
    message = record.getMessage().translate(_CONTROLS)
    if record.exc_info:
        message = f"{message}\n{formatter.formatException(record.exc_info)}"
    return redact.masked_text(message)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(
            f"{name}={value}" for name, value in getattr(record, "komand", {}).items() if value != "system"
        )
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        return f"{time} {record.levelname:<7} {record.name}: {_line(record, self)}{' · ' if fields else ''}{fields}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat()
        fields = {"at": at, "level": record.levelname, "logger": record.name, "message": _line(record, self)}
        return json.dumps({**fields, **getattr(record, "komand", {})}, ensure_ascii=False)
