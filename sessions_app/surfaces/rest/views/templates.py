"""Prompt templates: listed, created, changed, deleted, previewed, rolled back, by the rights of the admin."""

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.configuration import prompt_templates
from agents_app.configuration.required_rights import require_templates
from agents_app.models import PromptTemplate
from agents_app.rights import CHANGE_TEMPLATES, CREATE_TEMPLATES, DELETE_TEMPLATES
from audit_app.kernel.errors import found
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import templates as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class _TemplateView(RestView):
    def changeable(self, name: str) -> PromptTemplate:
        self.require(CHANGE_TEMPLATES)
        return prompt_templates.get_stored(name)


class TemplateList(_TemplateView):
    @paged("List prompt templates", objects.PromptTemplateOut, errors=[403])
    def get(self, request: Request) -> Response:
        require_templates(self.principal.user)
        return self.page_of(prompt_templates.list_templates(), objects.PromptTemplateOut.of)

    @Operation(
        "Create a prompt template", objects.PromptTemplateInFullOut, body=objects.NewPromptTemplateBody, errors=[409]
    )
    def post(self, request: Request) -> Response:
        self.require(CREATE_TEMPLATES)
        body = self.body()
        return _in_full(prompt_templates.create(body["name"], body["text"], body["note"]))


class TemplateDetail(_TemplateView):
    @Operation("Read a prompt template", objects.PromptTemplateInFullOut, errors=[403])
    def get(self, request: Request, name: str) -> Response:
        require_templates(self.principal.user)
        return ok(objects.PromptTemplateInFullOut.of(prompt_templates.get_view(name)))

    @Operation("Change a prompt template", objects.PromptTemplateInFullOut, body=objects.PromptTemplateBody)
    def put(self, request: Request, name: str) -> Response:
        stored, body = self.changeable(name), self.body()
        return _in_full(prompt_templates.save(stored.name, body["text"], body["note"]))

    @Operation("Delete a prompt template", errors=[409])
    def delete(self, request: Request, name: str) -> Response:
        self.require(DELETE_TEMPLATES)
        prompt_templates.delete(prompt_templates.get_stored(name))
        return ok(None)


class TemplatePreview(_TemplateView):
    """The rendered text, present or not stored yet."""

    @Operation("Render a prompt template", objects.RenderedTemplateOut, body=objects.PreviewBody)
    def post(self, request: Request, name: str) -> Response:
        self.require(CHANGE_TEMPLATES)
        body = self.body()
        text = prompt_templates.get_view(name).text if body["text"] is None else body["text"]
        rendered = prompt_templates.preview(name, text, body["parameters"])
        settings = {"model": rendered.settings.model} if rendered.settings.model else {}
        settings |= rendered.settings.to_options()
        return ok(objects.RenderedTemplateOut.of(rendered, settings=settings))


class TemplateVersionList(_TemplateView):
    @paged("List the versions of a prompt template", objects.PromptTemplateVersionOut, errors=[403])
    def get(self, request: Request, name: str) -> Response:
        require_templates(self.principal.user)
        rows = prompt_templates.get_stored(name).versions.order_by("-number").defer("text")
        return self.page_of(list(rows), objects.PromptTemplateVersionOut.of)


class TemplateVersionDetail(_TemplateView):
    @Operation("Read a version of a prompt template", objects.PromptTemplateVersionInFullOut, errors=[403])
    def get(self, request: Request, name: str, number: int) -> Response:
        require_templates(self.principal.user)
        version = prompt_templates.get_stored(name).versions.filter(number=number).first()
        shown = found(version, f"The template {name} has no version {number}.", code="unknown_version")
        return ok(objects.PromptTemplateVersionInFullOut.of(shown))


class TemplateRollback(_TemplateView):
    @Operation("Roll a prompt template back", objects.PromptTemplateInFullOut)
    def post(self, request: Request, name: str, number: int) -> Response:
        return _in_full(prompt_templates.roll_back(self.changeable(name).name, number))


def _in_full(row: PromptTemplate) -> Response:
    return ok(objects.PromptTemplateInFullOut.of(prompt_templates.get_view(row.name)))
