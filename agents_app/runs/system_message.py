"""The system message of a run, from its agent, its options and the tools that it offers. Reads only."""

from django.conf import settings

from agents_app.models import Run
from agents_app.prompt import system_prompt, tool_output_markers
from agents_app.prompt.offered_tools import OfferedTools
from agents_app.prompt.system_prompt import PromptPart, ToolNotes
from agents_app.types import RunOptions


def system_parts_of(run: Run, tools: OfferedTools) -> tuple[PromptPart, ...]:
    """Return the parts of the system message, which are the same in all calls of a run within a day."""
    instructions = RunOptions.from_dict(run.options).instructions
    parts = system_prompt.system_parts(
        run.agent.name,
        run.agent.system_prompt,
        template=run.agent.template_parts,
        tools=ToolNotes.of(tools.listed, tools.all),
        sign=tool_output_markers.sign_of(settings.SECRET_KEY, run.conversation_id),
    )
    return (*parts, PromptPart("instructions of the message", instructions)) if instructions else parts
