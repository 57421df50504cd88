"""The tools, resources and prompts that the conformance suite of MCP wants to find, registered as any offer."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import mcp_types as types
from django.utils import timezone

from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.mcp.calls import TASKS, Call, form
from sessions_app.surfaces.mcp.registry import (
    Argument,
    Content,
    Page,
    Prompt,
    PromptKind,
    Resource,
    ResourceKind,
    TaskKind,
    TaskState,
    Tool,
    parameters_of,
    prompts,
    resources,
    tasks,
    tools,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
NAME = form("What is your name?", {"name": {"type": "string"}}, ("name",))
GREETING = types.CreateMessageRequest(
    params=types.CreateMessageRequestParams(
        messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Greet me."))],
        max_tokens=50,
    )
)
TEXT = {"type": "string"}


def said(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")


def embedded(uri: str, text: str, media_type: str = "text/plain") -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=media_type, text=text)
    return types.EmbeddedResource(type="resource", resource=contents)


def result(*content: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[said(one) if isinstance(one, str) else one for one in content])


def tool(name: str, parameters: dict[str, Any] | None = None, *, needs: tuple[str, ...] = ()) -> Any:
    def register(run: Any) -> Any:
        tools.register(Tool(name, name, "A fixture of the suite.", parameters or parameters_of(), True, run, needs))
        return run

    return register


def fixed(name: str, *content: Any) -> None:
    async def run(call: Call, arguments: dict[str, Any]) -> Any:
        return result(*content)

    tool(name)(run)


fixed("test_simple_text", "This is a simple text response for testing.")
fixed("test_image_content", image())
audio = types.AudioContent(type="audio", data=base64.b64encode(WAV).decode(), mime_type="audio/wav")
fixed("test_audio_content", audio)
fixed("test_embedded_resource", embedded("test://embedded-resource", "This is an embedded resource content."))
data = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
fixed("test_multiple_content_types", "Multiple content types test:", image(), data)
fixed("test_trigger_tool_change", "The list of tools does not change.")
fixed("test_trigger_prompt_change", "The list of prompts does not change.")


@tool("test_error_handling")
async def _error(call: Call, arguments: dict[str, Any]) -> Any:
    raise InvalidInput("This tool intentionally returns an error for testing")


@tool("test_tool_with_logging")
async def _logging(call: Call, arguments: dict[str, Any]) -> Any:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log("info", text)
        await asyncio.sleep(0.05)
    return result("logged")


tool("test_logging_tool")(_logging)


@tool("test_tool_with_progress")
async def _progress(call: Call, arguments: dict[str, Any]) -> Any:
    for done in (0, 50, 100):
        await call.progress(done, 100)
        await asyncio.sleep(0.05)
    return result("done")


@tool("test_sampling", parameters_of(("prompt",), prompt=TEXT), needs=("sampling",))
async def _sampling(call: Call, arguments: dict[str, Any]) -> Any:
    message = types.SamplingMessage(role="user", content=said(arguments["prompt"]))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    answers = await call.ask({"answer": types.CreateMessageRequest(params=params)})
    return result(f"LLM response: {answers['answer'].content.text}")


async def asked(call: Call, request: types.ElicitRequest, lead: str) -> Any:
    answer = (await call.ask({"answer": request}))["answer"]
    return result(f"{lead}: action={answer.action}, content={json.dumps(answer.content)}")


@tool("test_elicitation", parameters_of(("message",), message=TEXT), needs=("elicitation",))
async def _elicitation(call: Call, arguments: dict[str, Any]) -> Any:
    fields = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return await asked(call, form(arguments["message"], fields, ("username", "email")), "User response")


@tool("test_elicitation_sep1034_defaults", needs=("elicitation",))
async def _defaults(call: Call, arguments: dict[str, Any]) -> Any:
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await asked(call, form("Defaults", fields), "Elicitation completed")


@tool("test_elicitation_sep1330_enums", needs=("elicitation",))
async def _enums(call: Call, arguments: dict[str, Any]) -> Any:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"{name} Option"} for number, name in enumerate(_NUMBERS, 1)]
    choices = [{"const": f"value{number}", "title": f"{name} Choice"} for number, name in enumerate(_NUMBERS, 1)]
    fields = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": choices}},
    }
    return await asked(call, form("Choices", fields), "Elicitation completed")


_NUMBERS = ("First", "Second", "Third")


@tool("test_missing_capability", needs=("sampling",))
async def _missing(call: Call, arguments: dict[str, Any]) -> Any:
    return result("The client can sample.")


@tool("test_input_required_result_elicitation")
async def _ask_name(call: Call, arguments: dict[str, Any]) -> Any:
    answer = (await call.ask({"user_name": NAME}))["user_name"]
    return result(f"Hello, {(answer.content or {}).get('name')}!")


tool("test_streaming_elicitation")(_ask_name)


@tool("test_input_required_result_sampling")
async def _ask_model(call: Call, arguments: dict[str, Any]) -> Any:
    message = types.SamplingMessage(role="user", content=said("What is the capital of France?"))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    answers = await call.ask({"capital_question": types.CreateMessageRequest(params=params)})
    return result(answers["capital_question"].content.text)


@tool("test_input_required_result_list_roots")
async def _ask_roots(call: Call, arguments: dict[str, Any]) -> Any:
    answers = await call.ask({"client_roots": types.ListRootsRequest()})
    return result(", ".join(str(root.uri) for root in answers["client_roots"].roots))


@tool("test_input_required_result_request_state")
async def _state(call: Call, arguments: dict[str, Any]) -> Any:
    await call.ask({"confirm": form("Please confirm", {"ok": {"type": "boolean"}}, ("ok",))}, state="waiting")
    return result("state-ok" if call.state == "waiting" else "state-wrong")


tool("test_input_required_result_tampered_state")(_state)


@tool("test_input_required_result_multiple_inputs")
async def _many(call: Call, arguments: dict[str, Any]) -> Any:
    wanted = {"user_name": NAME, "greeting": GREETING, "client_roots": types.ListRootsRequest()}
    return result(f"{len(await call.ask(wanted, state='many'))} answers")


tool("test_input_required_result_capabilities")(_many)


@tool("test_input_required_result_multi_round")
async def _rounds(call: Call, arguments: dict[str, Any]) -> Any:
    if not call.state.startswith("name:"):
        form_1 = form("Step 1: What is your name?", {"name": TEXT}, ("name",))
        answer = (await call.ask({"step1": form_1}, state="step1"))["step1"]
        name = (answer.content or {}).get("name")
    else:
        name = call.state.removeprefix("name:")
    form_2 = form("Step 2: What is your favorite color?", {"color": TEXT}, ("color",))
    answer = (await call.ask({"step2": form_2}, state=f"name:{name}"))["step2"]
    return result(f"{name} likes {(answer.content or {}).get('color')}")


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": TEXT, "city": TEXT}}},
    "properties": {
        "name": TEXT,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": TEXT,
        "email": TEXT,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool("json_schema_2020_12_tool", SCHEMA)
async def _schema(call: Call, arguments: dict[str, Any]) -> Any:
    return result(json.dumps(arguments))


def resource(uri: str, content: Content) -> None:
    """Register a kind that has one resource."""

    def listed(principal: Principal, cursor: str) -> Page:
        return Page([Resource({}, uri, "A fixture of the suite.", content.media_type)])

    kind = ResourceKind(uri, uri, uri, "A fixture of the suite.", content.media_type, listed, lambda principal: content)
    resources.register(kind)


def _template_content(principal: Principal, id: str) -> Content:
    shown = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
    return Content(json.dumps(shown), "application/json")


resource("test://static-text", Content("This is the content of the static text resource."))
resource("test://static-binary", Content(PNG, "image/png"))
resource("test://watched-resource", Content("watched"))
resources.register(
    ResourceKind(
        "test-template",
        "test://template/{id}/data",
        "Template",
        "A fixture of the suite.",
        "application/json",
        lambda principal, cursor: Page(()),
        _template_content,
    )
)

PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def _prompt(name: str) -> Prompt:
    arguments = tuple(Argument(one, "An argument.", True, lambda _: ["paris", "park"]) for one in PROMPTS[name])
    return Prompt(name, name, "A fixture of the suite.", arguments)


def _find(principal: Principal, name: str) -> Prompt:
    if name not in PROMPTS:
        raise NotFound("There is no such prompt.")
    return _prompt(name)


async def _get(call: Call, name: str, given: dict[str, str]) -> Sequence[Any]:
    match name:
        case "test_prompt_with_arguments":
            return [f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"]
        case "test_prompt_with_embedded_resource":
            shown = embedded(given["resourceUri"], "Embedded resource content for testing.")
            return [shown, "Please process the embedded resource above."]
        case "test_prompt_with_image":
            return [image(), "Please analyze the image above."]
        case "test_input_required_result_prompt":
            wanted = form("What context should the prompt use?", {"context": TEXT}, ("context",))
            answer = (await call.ask({"user_context": wanted}))["user_context"]
            return [f"Use this context: {(answer.content or {}).get('context')}"]
    return ["This is a simple prompt for testing."]


prompts.register(PromptKind("test_", lambda principal, cursor: Page([_prompt(name) for name in PROMPTS]), _find, _get))


class Job:
    """A task in the memory of this process. needs: names that it waits for."""

    def __init__(
        self,
        seconds: float = 0,
        *,
        text: str = "done",
        error: str = "",
        is_broken: bool = False,
        needs: tuple[str, ...] = (),
    ) -> None:
        self.began, self.ends = timezone.now(), timezone.now() + timedelta(seconds=seconds)
        self.text, self.error, self.is_broken, self.is_cancelled = text, error, is_broken, False
        self.needs = dict.fromkeys(needs, form("Go on?", {"confirm": {"type": "boolean"}}))

    def state(self) -> TaskState:
        now = timezone.now()
        if self.is_cancelled:
            return TaskState("cancelled", self.began, now)
        if self.needs:
            return TaskState("input_required", self.began, now, asks=self.needs)
        if now < self.ends:
            return TaskState("working", self.began, now)
        if self.is_broken:
            return TaskState("failed", self.began, now, error="The job broke.")
        text = types.CallToolResult(content=[said(self.error or self.text)], is_error=bool(self.error))
        return TaskState("completed", self.began, now, text)


JOBS: dict[str, Job] = {}


def _job(principal: Principal, task_id: str) -> Job:
    if task_id not in JOBS:
        raise NotFound("There is no such task.")
    return JOBS[task_id]


def _answer_job(principal: Principal, task_id: str, answers: Mapping[str, Any]) -> None:
    job = _job(principal, task_id)
    for name in answers:
        job.needs.pop(name, None)


def _cancel_job(principal: Principal, task_id: str) -> None:
    job = _job(principal, task_id)
    job.is_cancelled = job.is_cancelled or job.state().status in ("working", "input_required")


def job(name: str, make: Callable[[dict[str, Any]], Job], *, needs: tuple[str, ...] = (), **properties: Any) -> None:
    async def begin(call: Call, arguments: dict[str, Any]) -> str:
        task_id = f"job-{uuid4()}"
        JOBS[task_id] = make(arguments)
        return task_id

    async def run(call: Call, arguments: dict[str, Any]) -> Any:
        made = make(arguments)
        made.needs = {}
        await asyncio.sleep((made.ends - made.began).total_seconds())
        return made.state().result

    parameters = {"type": "object", "properties": properties}
    tools.register(Tool(name, name, "A fixture of the suite.", parameters, True, run, needs, begin))


tasks.register(TaskKind("job-", lambda principal, task_id: _job(principal, task_id).state(), _answer_job, _cancel_job))
NUMBER = {"type": "number"}
job("slow_compute", lambda given: Job(given.get("seconds", 0)), seconds=NUMBER, label=TEXT)
job("failing_job", lambda given: Job(1, error="It failed."), needs=(TASKS,))
job("protocol_error_job", lambda given: Job(is_broken=True))
job("confirm_delete", lambda given: Job(needs=("confirm",)), filename=TEXT)
job("multi_input", lambda given: Job(needs=("first", "second")))


async def _begin_named(call: Call, arguments: dict[str, Any]) -> str:
    answer = (await call.ask({"user_name": NAME}))["user_name"]
    task_id = f"job-{uuid4()}"
    JOBS[task_id] = Job(text=f"Hello, {(answer.content or {}).get('name')}!")
    return task_id


named = Tool(
    "test_tool_with_task", "Task", "A fixture of the suite.", parameters_of(), True, _ask_name, (TASKS,), _begin_named
)
tools.register(named)
HEADER = {"type": "string", "x-mcp-header": "Region"}


@tool("test_headers", {"type": "object", "properties": {"region": HEADER}})
async def _headers(call: Call, arguments: dict[str, Any]) -> Any:
    return result(str(arguments.get("region")))


@tool("greet", {"type": "object", "properties": {"name": TEXT}})
async def _greet(call: Call, arguments: dict[str, Any]) -> Any:
    return result(f"Hello, {arguments.get('name')}!")
