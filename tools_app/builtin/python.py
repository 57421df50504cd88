"""`python`: runs Python code. Available only with KOMAND_PYTHON_TOOL; docs/security.md describes its limits."""

from dataclasses import replace
from typing import Any

from django.conf import settings

from tools_app.parameters import parameters, text
from tools_app.sandbox import python_process
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolError, ToolSpec

_MAX_CODE_CHARACTERS = 100_000
_MAX_SHOWN_CHARACTERS = 20_000
# The rest of the time limit is for starting and cleaning up.
_RUNNING_SHARE = 0.9
_NOT_ISOLATED = (
    "Python code cannot be isolated on this machine ({problem}), so it was not run. An operator can see what is "
    "missing by `manage.py doctor`, or set KOMAND_PYTHON_TOOL=unisolated to run it all the same."
)


class Python(Tool):
    spec = ToolSpec(
        name="python",
        description=(
            "Run Python code with the standard library and return what it prints. It has no network, no packages and "
            "no files but those it makes, which are gone afterwards, and starts no threads or processes. Never run "
            "code that somebody else wrote."
        ),
        parameters=parameters(
            "code", code=text("The program. Print what you want to see.", minLength=1, maxLength=_MAX_CODE_CHARACTERS)
        ),
        effect=Effect.READ,
        risk=Risk.HIGH,
        timeout_seconds=60,
        reads=Reads.NOTHING,
        sends=(),
    )

    def __init__(self) -> None:
        if settings.KOMAND_PYTHON_UNISOLATED:  # its code may reach the network
            self.spec = replace(self.spec, reads=Reads.OUTSIDE, sends=None)

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"exit_code": null if it was stopped, "why_stopped", "stdout", "stderr", "truncated",
        "held_by_kernel": which of `network`, `files`, `programs` and `processes` the kernel denies}."""
        seconds, unisolated = context.timeout_seconds * _RUNNING_SHARE, settings.KOMAND_PYTHON_UNISOLATED
        try:
            ran = python_process.run(arguments["code"], seconds=seconds, unisolated=unisolated)
        except python_process.NotIsolated as problem:
            raise ToolError(_NOT_ISOLATED.format(problem=problem)) from None
        return {
            "exit_code": ran.exit_code,
            "why_stopped": ran.why,
            "stdout": ran.stdout[:_MAX_SHOWN_CHARACTERS],
            "stderr": ran.stderr[-_MAX_SHOWN_CHARACTERS:],
            "truncated": max(len(ran.stdout), len(ran.stderr)) > _MAX_SHOWN_CHARACTERS,
            "held_by_kernel": list(ran.held),
        }
