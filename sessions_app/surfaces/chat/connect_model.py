"""The page on which an administrator connects a model to the agents without one: address, key, model, test, use.

The key stays in the form of the browser between the steps, and is stored with the last one. Without scripts, it is
entered again at each step.
"""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.debug import sensitive_post_parameters
from django_htmx.http import HttpResponseClientRedirect

from agents_app.providers import connection
from agents_app.providers.connection import Server
from audit_app.kernel import context
from audit_app.kernel.errors import AppError, InvalidInput
from audit_app.kernel.safe_text import duration, visible
from audit_app.rights import require
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.pages import PageRequest, page, safe_target

# Of servers that people have; docs/models.md has all.
PRESETS = (
    ("OpenAI", "https://api.openai.com/v1"),
    ("Ollama on this machine", "http://127.0.0.1:11434/v1"),
    ("llama.cpp on this machine", "http://127.0.0.1:8080/v1"),
    ("vLLM on this machine", "http://127.0.0.1:8000/v1"),
    ("Anthropic", "https://api.anthropic.com/v1"),
    ("Gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("Groq", "https://api.groq.com/openai/v1"),
    ("xAI", "https://api.x.ai/v1"),
    ("OpenRouter", "https://openrouter.ai/api/v1"),
)
_LONGEST_ANSWER = 300


@sensitive_post_parameters("key")
@page("GET", "POST")
def connect_model(request: PageRequest) -> HttpResponse:
    """Show the form; on POST list the models of the server, test one, or use it, as the pressed button says."""
    for right in connection.RIGHTS:
        require(request.user, right)
    if request.method == "GET":
        return _render(request, {})
    server = _read(request)
    try:
        with context.bind(actor=f"user:{request.user.pk}"):
            if request.POST.get("do") == "use":
                connection.connect(server, request.user)
                return _leave(request)
            shown = _test(request, server) if request.POST.get("do") == "test" else _list(request, server)
    except AppError as error:
        # htmx does not show the answers of errors.
        status = 200 if request.htmx else http_error_of(error).status
        return _render(request, {"refusal": visible(error.message), "models": _known(request)}, status)
    return _render(request, shown)


def _read(request: PageRequest) -> Server:
    given = {name: request.POST.get(name, "").replace("\0", "").strip() for name in ("base_url", "key", "model")}
    return Server(given["base_url"].rstrip("/"), given["key"], given["model"])


def _list(request: PageRequest, server: Server) -> Mapping[str, object]:
    models = connection.list_models(server, request.user)
    if not models:
        message = "The server lists no models. Load one there and list them again, or enter its name."
        raise InvalidInput(message, code="no_models")
    return {"models": models}


def _test(request: PageRequest, server: Server) -> Mapping[str, object]:
    tried = connection.try_model(server, request.user)
    answer = visible(tried.answer[:_LONGEST_ANSWER]) or "nothing but a call of a tool"
    text = f"{visible(tried.model)} answered in {duration(tried.seconds)}: {answer}"
    return {"answer": text, "models": tried.models or _known(request)}


def _known(request: PageRequest) -> list[str]:
    """Return the models that the form shows, so that a failed step does not take the list away."""
    return request.POST.get("known", "").splitlines()


def _leave(request: PageRequest) -> HttpResponse:
    target = safe_target(request)
    return HttpResponseClientRedirect(target) if request.htmx else HttpResponseRedirect(target)


def _render(request: PageRequest, shown: Mapping[str, Any], status: int = 200) -> HttpResponse:
    template = "chat/_connect_model.html" if request.htmx else "chat/connect_model.html"
    given = {"base_url": request.POST.get("base_url", ""), "model": request.POST.get("model", "")}
    frame = {"presets": PRESETS, "next": safe_target(request), "known": "\n".join(shown.get("models", ())), **given}
    moved = {} if request.htmx else {"names": connection.agents_to_move().values_list("name", flat=True)}
    return render(request, template, {**frame, **moved, **shown}, status=status)
