"""`batch`: calls one tool for each item of a list."""

import json
from typing import Any

from tools_app import conf
from tools_app.parameters import parameters, text
from tools_app.run_progress import BATCH
from tools_app.types import BatchTool, Effect, Reads, Risk, ToolCall, ToolError, ToolSpec


class BatchCalls(BatchTool):
    needs_run = True
    spec = ToolSpec(
        name=BATCH,
        description="Call one tool many times, once for each item: faster than single calls, and errors stop nothing.",
        parameters=parameters(
            "tool",
            "items",
            tool=text("Its name.", minLength=1, maxLength=120),
            items={
                "type": "array",
                "items": {"type": "object"},
                "minItems": 1,
                "maxItems": conf.MOST_BATCH_ITEMS,
                "description": "The arguments of each call.",
            },
        ),
        effect=Effect.READ,  # it does nothing itself: each call has the effect and the risk of its tool
        risk=Risk.LOW,
        timeout_seconds=60,
        reads=Reads.NOTHING,
        sends=(),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        if (count := len(arguments["items"])) > conf.batch_items():
            raise ToolError(f"A batch may have at most {conf.batch_items()} items, not {count}. Make several calls.")

    def calls_of(self, arguments: dict[str, Any]) -> tuple[ToolCall, ...]:
        name, items = arguments["tool"], arguments["items"]
        return tuple(ToolCall(str(number), name, json.dumps(item)) for number, item in enumerate(items, start=1))
