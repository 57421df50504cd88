"""The requests of the protocol, answered from the registry. They know no offer."""

from collections.abc import Iterable
from typing import Any

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError, InvalidInput, NotFound
from audit_app.kernel.registry import Registry
from sessions_app.surfaces.base.bodies import clean
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.mcp import registry, results
from sessions_app.surfaces.mcp.calls import Call, Context, InputRequired, principal_of
from sessions_app.surfaces.mcp.registry import Argument, Tool, find_prompts, find_resource, find_tasks
from tools_app import schema

_MOST_COMPLETIONS = 100
_NOT_FOUND_BEFORE_2026 = -32002
_SAME_FOR_ALL = CacheHint(ttl_ms=300_000, scope="public")
CACHE_HINTS: dict[Any, CacheHint] = {
    "server/discover": _SAME_FOR_ALL,
    "tools/list": _SAME_FOR_ALL,
    "resources/templates/list": _SAME_FOR_ALL,
    "prompts/list": CacheHint(ttl_ms=60_000),
    "resources/list": CacheHint(),
    "resources/read": CacheHint(),
}


async def list_tools(context: Context, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[results.tool(tool) for tool in registry.tools])


async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
    call = Call(context, params)
    try:
        return await _run(call, params.name, params.arguments or {})
    except InputRequired as required:
        return required.result
    except MCPError:
        raise
    except AppError as error:
        return results.text_result(error.message, is_error=True)
    except Exception as error:  # details of an internal error go to the log, not to the client
        return results.text_result(http_error_of(error).message, is_error=True)


async def _run(call: Call, name: str, arguments: dict[str, Any]) -> Any:
    tool = registry.tools.find(name)
    if tool is None:
        known = ", ".join(registry.tools.names())
        raise InvalidInput(f"There is no tool {name[:80]!r}; the tools are {known}.", code="unknown_tool")
    _check_needs(call, tool)
    arguments = clean(arguments)
    try:
        schema.check_arguments(arguments, tool.parameters)
    except schema.ArgumentsError as problem:
        raise InvalidInput(str(problem)) from None
    if not tool.reads:
        await in_db(call.principal.require_write)
    if tool.begin and call.takes_tasks:
        task_id = await tool.begin(call, arguments)
        return results.created_task(task_id, await in_db(find_tasks(task_id).get, call.principal, task_id))
    return results.of_tool(await tool.run(call, arguments))


def _check_needs(call: Call, tool: Tool) -> None:
    """Raise the protocol's error unless the client has declared what the tool needs."""
    if missing := [need for need in tool.needs if not call.declares(need)]:
        message = f"The tool {tool.name} needs capabilities that the client has not declared: {', '.join(missing)}."
        required: dict[str, Any] = {need: {} for need in missing if "/" not in need}
        extensions: dict[str, Any] = {need: {} for need in missing if "/" in need}
        if extensions:
            required["extensions"] = extensions
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, {"requiredCapabilities": required})


async def list_resources(context: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    found, cursor = await _page(registry.resources, context, params)
    listed = [results.resource(kind, one) for kind, one in found]
    return types.ListResourcesResult(resources=listed, next_cursor=cursor)


async def list_resource_templates(context: Context, params: Any) -> types.ListResourceTemplatesResult:
    kinds = [results.resource_template(kind) for kind in registry.resources if kind.variables]
    return types.ListResourceTemplatesResult(resource_templates=kinds)


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    found = find_resource(uri)
    if found is None:
        raise _no_resource(context, uri, "There is no such resource.")
    kind, variables = found
    try:
        content = await in_db(kind.read, principal_of(context), **variables)
    except NotFound as error:
        raise _no_resource(context, uri, error.message) from None
    except Exception as error:
        raise as_protocol_error(error) from None
    return results.contents(uri, content)


async def list_prompts(context: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    found, cursor = await _page(registry.prompts, context, params)
    return types.ListPromptsResult(prompts=[results.prompt(one) for _, one in found], next_cursor=cursor)


async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
    call = Call(context, params)
    try:
        kind = find_prompts(params.name)
        if kind is None:
            raise NotFound("There is no such prompt.")
        prompt = await in_db(kind.find, call.principal, params.name)
        arguments = clean(params.arguments or {})
        _check_arguments(prompt.arguments, arguments)
        return results.messages(await kind.get(call, params.name, arguments))
    except InputRequired as required:
        return required.result
    except Exception as error:
        raise as_protocol_error(error) from None


def _check_arguments(known: Iterable[Argument], given: dict[str, str]) -> None:
    if missing := [one.name for one in known if one.is_required and one.name not in given]:
        raise InvalidInput(f"The prompt needs the arguments {', '.join(missing)}.", code="missing_arguments")


async def complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Return the values of an argument that begin with what is written, those that contain it after them."""
    try:
        if isinstance(params.ref, types.PromptReference):
            known = await _values_of_prompt(context, params.ref.name, params.argument.name)
        else:
            known = await _values_of_uri(context, str(params.ref.uri), params.argument.name)
    except Exception as error:
        raise as_protocol_error(error) from None
    written = params.argument.value.lower()
    containing = [one for one in known if written in one.lower()]
    fitting = sorted(containing, key=lambda one: not one.lower().startswith(written))
    shown = fitting[:_MOST_COMPLETIONS]
    completion = types.Completion(values=shown, total=len(fitting), has_more=len(fitting) > len(shown))
    return types.CompleteResult(completion=completion)


async def _values_of_prompt(context: Context, name: str, argument: str) -> list[str]:
    kind = find_prompts(name)
    if kind is None:
        raise NotFound("There is no such prompt.")
    prompt = await in_db(kind.find, principal_of(context), name)
    listing = next((one.complete for one in prompt.arguments if one.name == argument), None)
    return list(await in_db(listing, principal_of(context))) if listing else []


async def _values_of_uri(context: Context, template: str, variable: str) -> list[str]:
    """Return the values of a variable in the first page of the kind's resources."""
    kind = next((one for one in registry.resources if one.uri == template), None)
    if kind is None or variable not in kind.variables:
        raise NotFound("There is no such resource template.")
    page = await in_db(kind.list_page, principal_of(context), "")
    return [one.variables[variable] for one in page.items]


async def _page(kinds: Registry[Any], context: Context, params: Any) -> tuple[list[tuple[Any, Any]], str | None]:
    """Return a page of one kind, with the kind, and the cursor of the next page: of this kind or of the next one."""
    names = kinds.names()
    name, _, inner = (params.cursor if params and params.cursor else "").partition(">")
    if name and name not in names:
        raise MCPError(types.INVALID_PARAMS, "This cursor is not from a list of this server.")
    for at, current in enumerate(names[names.index(name) if name else 0 :], names.index(name) if name else 0):
        kind = kinds.get(current)
        try:
            page = await in_db(kind.list_page, principal_of(context), inner)
        except Exception as error:
            raise as_protocol_error(error) from None
        inner = ""
        following = names[at + 1] + ">" if at + 1 < len(names) else None
        if page.items or page.cursor:
            return [(kind, one) for one in page.items], f"{current}>{page.cursor}" if page.cursor else following
    return [], None


def _no_resource(context: Context, uri: str, message: str) -> MCPError:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if is_modern else _NOT_FOUND_BEFORE_2026
    return MCPError(code, message, {"uri": uri})


def as_protocol_error(error: Exception) -> MCPError:
    """Return an exception as an error of the protocol. Details of an internal error go to the log only."""
    if isinstance(error, MCPError):
        return error
    failure = http_error_of(error)
    code = types.INVALID_PARAMS if failure.status < 500 else types.INTERNAL_ERROR
    return MCPError(code, failure.message, {"code": failure.code})
