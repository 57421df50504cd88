"""Agents in the admin. They are retired, never deleted, because runs refer to them."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from unfold.contrib.filters.admin import ChoicesDropdownFilter
from unfold.decorators import display
from unfold.enums import ActionVariant

from agents_app import services
from agents_app.admin import dry_run_page, history_page, import_page, prompt_page
from agents_app.admin.control import ReasonForm, resume, stop
from agents_app.admin.forms import AgentForm
from agents_app.configuration import agent_files, agent_skills, agent_versions
from agents_app.models import Agent
from agents_app.rights import DELETE_AGENTS
from audit_app import fresh_login
from audit_app.admin_base import columns, links, names
from audit_app.admin_base.base import AuditedAdmin, ConditionalAdmin, VersionedAdmin, acting, get_or_404, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.filters import ActiveFilter, RelatedFilter
from audit_app.admin_base.permissions import granted_by, never
from audit_app.admin_base.theme import Dialog, act, button, submit
from audit_app.kernel.safe_text import visible
from tools_app.policy import emergency_stop
from tools_app.rights import STOP_AGENTS

PAGE = "admin:agents_app_agent_change"

_SAVE_DRAFT = "agents_app_agent_save_draft"  # the name that the theme gives the button

links.register_page("agent", PAGE)


def _agent_names(keys: Collection[str], user: Any) -> dict[str, str]:
    return dict(Agent.objects.filter(agent_id__in=keys).values_list("agent_id", "name"))


def _agent_actors(keys: Collection[str], user: Any) -> dict[str, str]:
    ids = {key.removeprefix("agent:") for key in keys if key.startswith("agent:")}
    return {f"agent:{agent_id}": name for agent_id, name in _agent_names(ids, user).items()} if ids else {}


names.register_names("agent", _agent_names)
names.register_names("actor", _agent_actors)


def try_url(agent: Agent) -> str:
    """Return the URL of the chat page with a new session for this agent."""
    return f"/chat/new?{urlencode({'agent': agent.agent_id})}"


class StateFilter(ActiveFilter):
    ended = "retired"


def _budget(label: str, name: str) -> Any:
    return columns.column(label, lambda agent: agent.budgets.get(name, "–"))


def _tab(title: str, *fields: str | tuple[str, ...]) -> tuple[str, Any]:
    return title, {"classes": ["tab"], "fields": fields}


@admin.register(Agent)
class AgentAdmin(ConditionalAdmin, VersionedAdmin, AuditedAdmin):  # type: ignore[misc]  # the theme widens Django's types
    noun = "Agent"
    form = AgentForm
    list_display = ("title", "agent_id", "served_by", "may", "state", "try_link")
    list_filter = (StateFilter, ("provider", RelatedFilter), ("autonomy", ChoicesDropdownFilter))
    list_filter_submit = True
    list_select_related = ("provider",)
    search_fields = ("agent_id", "name", "description")
    empty_text = "Agents answer messages: each has its instructions, its model and its tools."
    prepopulated_fields = {"agent_id": ("name",)}
    actions_detail: Any = (
        *("try_it", "versions", "see_prompt", "dry_run", "show_runs", "export"),
        *("stop", "resume", "retire", "restore"),
    )
    actions_list: Any = ("import_agents",)
    actions_submit_line: Any = ("save_draft",)
    conditional_fields = {"chosen_tools": "all_tools == false", "mcp_servers": "mcp_servers_mode == 'list'"}
    warn_unsaved_form = True
    autocomplete_fields = ("shared_users", "shared_groups")
    fieldsets = (
        (None, {"fields": (("name", "agent_id"), "description", "starters", ("provider", "model_id"), "fallbacks")}),
        _tab("Sharing", "is_shared_with_everyone", "shared_users", "shared_groups"),
        _tab(
            "Behaviour",
            *("template", "template_parameters", "system_prompt"),
            ("max_context_tokens", "memory_budget_tokens"),
            *("allowed_channels", "busy_policy"),
        ),
        _tab("Structured output", "output_schema", "output_retries"),
        _tab(
            "Tools",
            "autonomy",
            "needs_two_approvers",
            "parallel_tool_calls",
            "all_tools",
            "chosen_tools",
            "tool_profile",
            "mcp_servers_mode",
            "mcp_servers",
            "workstream_agents",
            "enabled_skill_ids",
        ),
        _tab(
            "Rules",
            *("denied_tools", "always_ask", "auto_approve", "allowed_tools", "allowed_hosts", "denied_hosts"),
            "egress_servers",
            ("actions_per_hour", "cost_per_hour"),
            ("cost_per_day", "cost_per_month"),
        ),
        _tab(
            "Limits",
            ("max_tool_rounds", "max_active_seconds"),
            ("max_call_seconds", "max_idle_seconds"),
            ("max_tries", "queue_limit"),
            ("retry_first_seconds", "retry_max_seconds"),
        ),
    )

    has_delete_permission = never
    has_retire_permission = granted_by(DELETE_AGENTS)
    has_stop_permission = granted_by(STOP_AGENTS)

    def get_readonly_fields(self, request: HttpRequest, obj: Agent | None = None) -> tuple[str, ...]:
        return ("agent_id",) if obj else ()

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Show the model by name, without a link to its provider, to who may only view the agent."""
        if obj is None or self.has_change_permission(request, obj):
            return self.fieldsets
        return (
            (None, {"fields": (("name", "agent_id"), "description", "served_by", "fallbacks")}),
            *self.fieldsets[1:],
        )

    def get_prepopulated_fields(self, request: HttpRequest, obj: Agent | None = None) -> Any:
        return {} if obj else self.prepopulated_fields

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.user = request.user  # the class is made for this request
        form.has_fresh_login = fresh_login.is_fresh(fresh_login.time_of_session(request.session))
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if self._is_draft(request):
            with acting(request):
                agent_versions.save_draft(obj, history_page.draft_of(obj, form))
            messages.success(request, history_page.draft_saved(obj))
            return
        if not change:
            obj.owner_id = request.user.pk
        elif not obj.version:
            agent_versions.record_version(obj, agent_versions.BASELINE)
        super().save_model(request, obj, form, change)
        with acting(request):
            agent_skills.set_skills(obj, form.cleaned_data["enabled_skill_ids"], owner_id=request.user.pk)

    def response_change(self, request: HttpRequest, obj: Agent) -> HttpResponse:
        """Return the next page, after a draft without the message that the agent was changed."""
        if self._is_draft(request):
            return self.response_post_save_change(request, obj)
        response: HttpResponse = super().response_change(request, obj)
        return response

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        if self._is_draft(request):
            return
        super().save_related(request, form, formsets, change)
        with acting(request):
            agent_versions.record_version(form.instance)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        return None if self._is_draft(request) else super().log_change(request, obj, message)

    @staticmethod
    def _is_draft(request: HttpRequest) -> bool:
        return request.method == "POST" and _SAVE_DRAFT in request.POST

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Agent | None:
        """Return an agent by its public id or its key: audit entries and executions only have the public id."""
        by_name = self.get_queryset(request).filter(agent_id=object_id).first()
        agent: Agent | None = by_name or super().get_object(request, object_id, from_field)
        draft = agent_versions.find_draft(agent) if agent and request.GET.get("draft") else None
        return agent_versions.applied(agent, draft.configuration) if agent and draft else agent

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        agent = self.get_object(request, object_id)
        hidden = {"retire", "try_it"} if agent and agent.retired_at else {"restore"}
        is_stopped = agent is not None and emergency_stop.get_status(agent.agent_id).is_stopped
        hidden.add("stop" if is_stopped else "resume")
        names = {f"agents_app_agent_{name}" for name in hidden}
        return [button for button in super().get_actions_detail(request, object_id) if button.action_name not in names]

    @button("Try it", path="try", icon="chat", permissions=["view"], variant=ActionVariant.PRIMARY)
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return HttpResponseRedirect(try_url(get_or_404(self, request, object_id)))

    @button("What the model sees", path="prompt", icon="visibility", permissions=["view"])
    def see_prompt(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return prompt_page.page_of_agent(request, self, get_or_404(self, request, object_id))

    @button("History", path="versions", icon="history", permissions=["view"])
    def versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return history_page.page(request, self, get_or_404(self, request, object_id))

    @button("Export", path="export", icon="download", permissions=["view"])
    def export(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = get_or_404(self, request, object_id)
        headers = {"Content-Disposition": f'attachment; filename="{agent.agent_id}.yaml"'}
        return HttpResponse(agent_files.export([agent]), content_type=agent_files.MEDIA_TYPE, headers=headers)

    @button("Import", path="import", icon="upload", permissions=["add"])
    def import_agents(self, request: HttpRequest) -> HttpResponse:
        return import_page.page(request, self)

    @submit("Save as draft", permissions=["change"])
    def save_draft(self, request: HttpRequest, obj: Agent) -> None:
        """Name the button of the form: `save_model` stores the draft."""

    @button("Test permissions", path="rehearsal", icon="psychology_alt", permissions=["change"])
    def dry_run(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return dry_run_page.page(request, self, get_or_404(self, request, object_id))

    @act(
        "Stop",
        path="stop",
        icon="stop_circle",
        permissions=["stop"],
        variant=ActionVariant.DANGER,
        dialog=Dialog(
            "Stop this agent?",
            "Its active runs end with their partial text, its tool calls are killed, and its messages wait.",
            "Stop it",
            ReasonForm,
        ),
    )
    def stop(self, request: HttpRequest, form: ReasonForm, object_id: str) -> HttpResponse:
        stop(request, form, get_or_404(self, request, object_id).agent_id)
        return back_to(request, PAGE, object_id)

    @act(
        "Resume",
        path="resume",
        icon="play_circle",
        permissions=["stop"],
        dialog=Dialog(
            "Resume this agent?",
            "Messages to it are accepted again, and queued messages are processed.",
            "Resume",
            ReasonForm,
        ),
    )
    def resume(self, request: HttpRequest, form: ReasonForm, object_id: str) -> HttpResponse:
        resume(request, form, get_or_404(self, request, object_id).agent_id)
        return back_to(request, PAGE, object_id)

    @button("Runs", path="runs", icon="play_circle", permissions=["view"])
    def show_runs(self, request: HttpRequest, object_id: str) -> HttpResponse:
        query = urlencode({"agent__id__exact": get_or_404(self, request, object_id).pk})
        return HttpResponseRedirect(f"{reverse('admin:agents_app_run_changelist')}?{query}")

    @act(
        "Retire",
        path="retire",
        icon="archive",
        permissions=["retire"],
        dialog=Dialog(
            "Retire this agent?",
            "It accepts no new sessions and messages. Its runs are kept, and it can be restored.",
            "Retire it",
        ),
    )
    def retire(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        agent = get_or_404(self, request, object_id)
        with reported(request):
            services.retire_agent(agent)
            messages.success(request, f"{agent.name} is retired.")
        return back_to(request, PAGE, object_id)

    @act(
        "Restore",
        path="restore",
        icon="unarchive",
        permissions=["retire"],
        dialog=Dialog("Restore this agent?", "It accepts sessions and messages again.", "Restore it"),
    )
    def restore(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        agent = get_or_404(self, request, object_id)
        with acting(request):
            services.restore_agent(agent)
        messages.success(request, f"{agent.name} is restored.")
        return back_to(request, PAGE, object_id)

    title = columns.text("Name", "name", ordering="name")

    @display(description="Model")
    def served_by(self, agent: Agent) -> str:
        return f"{agent.provider.name} · {visible(agent.model_id or agent.provider.default_model or 'default')}"

    may = columns.column(
        "Autonomy", lambda agent: agent.autonomy, label={"readonly": "info", "supervised": "success", "full": "warning"}
    )
    state = columns.column(
        "State", lambda agent: "retired" if agent.retired_at else "active", label={"active": "success"}
    )

    # Fields of the form, for who may only view the agent.
    all_tools = columns.column("All tools", lambda agent: agent.enabled_tools is None, boolean=True)
    chosen_tools = columns.column("Tools", lambda agent: visible(", ".join(agent.enabled_tools or ())) or "–")
    actions_per_hour = _budget("Calls per hour", "actionsPerHour")
    cost_per_hour = _budget("Cost per hour", "costPerHour")
    cost_per_day = _budget("Cost per day (UTC)", "costPerDay")
    cost_per_month = _budget("Cost per month (UTC)", "costPerMonth")

    @display(description="")
    def try_link(self, agent: Agent) -> str:
        if agent.retired_at:
            return ""
        return format_html('<a class="k-link" href="{}">Try it</a>', try_url(agent))
