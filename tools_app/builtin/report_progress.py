"""`report_progress`: stores how far a run is, which people see beside the answer."""

from typing import Any

from tools_app import run_progress
from tools_app.events import PROGRESS_REPORTED
from tools_app.parameters import integer, parameters, text
from tools_app.types import Effect, Reads, Report, Risk, Tool, ToolContext, ToolSpec


class ReportProgress(Tool):
    """Stores the progress: the recorded call is the report, so a repeated one changes nothing."""

    needs_run = True
    spec = ToolSpec(
        name=run_progress.REPORT_PROGRESS,
        description="Tell the person in one line how far your work is. Not for answers.",
        parameters=parameters(
            "text",
            text=text("", minLength=1, maxLength=300, pattern=r"\S"),
            percent=integer("", 0, 100),
            phase=text("", maxLength=60),
        ),
        effect=Effect.KEYED,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"text", "percent": 0..100 or null, "phase"}."""
        return {"text": arguments["text"], "percent": arguments.get("percent"), "phase": arguments.get("phase", "")}

    def report_of(self, value: Any) -> Report:
        return PROGRESS_REPORTED, value
