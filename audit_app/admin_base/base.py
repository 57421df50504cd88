"""Base classes of admin pages: read-only pages of big tables, and audited pages of settings."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.contrib.admin import ShowFacets
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.admin import ModelAdmin

from audit_app import fresh_login, services
from audit_app.admin_base import names
from audit_app.admin_base.permissions import never
from audit_app.kernel import context
from audit_app.kernel.errors import AppError
from audit_app.pagination import UncountedChangeList

# Text is searched in this many of the newest rows unless a date filter is set: no index helps such a search.
SEARCH_ROWS = 5_000


class _NamedChangeList(UncountedChangeList):
    """A page of a list with the names of the objects that its rows refer to."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        page: Any = self.model_admin
        names.load_names(self.result_list, page.named, request.user)


class ReadOnlyAdmin(ModelAdmin):
    """List and detail pages, newest first, of rows that only the product writes. The table is never counted.

    A search term that is a UUID is compared with `search_ids` first, any term with `search_keys`: both are indexed.
    Without a match it is searched in the `search_fields` of the newest rows.
    """

    search_ids: tuple[str, ...] = ("id",)
    search_keys: tuple[str, ...] = ()
    newest_by = "pk"
    prefetched: tuple[str, ...] = ()
    # Kinds of the keys that are shown by name, by attribute of the row.
    named: ClassVar[Mapping[str, str]] = {}
    change_form_template = "admin/komand/read_only.html"
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    sortable_by = ()
    list_per_page = 50
    list_disable_select_all = True
    list_filter_submit = True
    list_fullwidth = True

    has_add_permission = has_change_permission = has_delete_permission = never

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).prefetch_related(*self.prefetched)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> Any:
        return _NamedChangeList

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        names.load_names([kwargs["obj"]], self.named, request.user)
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        for find in (self._by_id, self._by_key):
            found = find(queryset, term)
            if found is not None:
                return found, False
        if not has_dates(request):
            queryset = self.recent(queryset)
        return super().get_search_results(request, queryset, term)

    def _by_id(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any] | None:
        """Return the rows with this id, or None. A request id may look like a UUID: it is then searched as text."""
        try:
            key = UUID(term)
        except ValueError:
            return None
        # One field after the other: with several in one condition a database may read the whole table.
        matches = (queryset.filter(**{field: key}) for field in self.search_ids)
        return next((found for found in matches if found.exists()), None)

    def _by_key(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any] | None:
        # Without the exclusion the partial index, which leaves out empty keys, would not be used.
        matches = (queryset.exclude(**{key: ""}).filter(**{key: term}) for key in self.search_keys)
        return next((found for found in matches if found.exists()), None)

    def recent(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows in which text is searched if no dates are given."""
        newest = self.model._default_manager.order_by(f"-{self.newest_by}").values_list(self.newest_by, flat=True)
        edge = newest[SEARCH_ROWS : SEARCH_ROWS + 1].first()
        return queryset if edge is None else queryset.filter(**{f"{self.newest_by}__gt": edge})


def has_dates(request: HttpRequest) -> bool:
    """Return whether a date filter limits the list."""
    return any(value for name, value in request.GET.items() if name.endswith(("_from", "_to")))


def get_or_404(page: ModelAdmin, request: HttpRequest, object_id: str) -> Any:
    """Return the row of this page. Raises Http404."""
    row = page.get_object(request, object_id)
    if row is None:
        raise Http404
    return row


def render_page(
    request: HttpRequest, page: ModelAdmin, template: str, /, *, title: str, **shown: object
) -> TemplateResponse:
    """Return a page of these rows that is neither their list nor a form of the admin. shown: for the template."""
    request.current_app = page.admin_site.name
    frame = page.admin_site.each_context(request)
    return TemplateResponse(request, template, {**frame, "opts": page.model._meta, "title": title, **shown})


def acting(request: HttpRequest) -> AbstractContextManager[None]:
    """Bind the operator as the actor of the block."""
    return context.bind(actor=f"user:{request.user.pk}")


@contextmanager
def reported(request: HttpRequest) -> Iterator[None]:
    """Bind the operator as the actor of the block, and show an AppError that ends it as a message."""
    try:
        with acting(request):
            yield
    except AppError as error:
        messages.error(request, error.message)


class FreshLoginAdmin(ModelAdmin):
    """Pages that take a fresh login. fresh_login_action: completes "To …, log in again"."""

    fresh_login_action = ""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        self._require_fresh_login(request)
        return super().changelist_view(request, extra_context)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self._require_fresh_login(request)
        return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        self._require_fresh_login(request)
        return super().delete_view(request, *args, **kwargs)

    def _require_fresh_login(self, request: HttpRequest) -> None:
        if self.has_view_or_change_permission(request):  # others get the usual refusal
            fresh_login.require(request, self.fresh_login_action)


class OperatorFormAdmin(ModelAdmin):
    """Pages whose form has the operator as `operator`."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"operator": request.user})


class VersionedAdmin(ModelAdmin):
    """Pages of rows with versions. Their button "History" takes the place of the theme's button of that name."""

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        shown = {**context, "show_history": False}
        response: HttpResponse = super().render_change_form(request, shown, *args, **kwargs)
        return response


class ConditionalAdmin(ModelAdmin):
    """Pages with `conditional_fields`. Those that may only be viewed have no inputs whose values could be compared."""

    conditional_fields: dict[str, str]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if not self.has_change_permission(request, kwargs.get("obj")) and not kwargs.get("add"):
            page = context["adminform"].model_admin = copy(self)  # the theme reads the conditions from it
            page.conditional_fields = {}
        response: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return response


class AuditedAdmin(ModelAdmin):
    """Pages of rows that operators edit. Each change writes an audit entry named after `noun`."""

    noun = ""
    list_per_page = 50

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._record(request, "Created", obj)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        parts = message if isinstance(message, list) else []
        changed = [name for part in parts for name in part.get("changed", {}).get("fields", [])]
        self._record(request, "Updated", obj, fields=changed)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        for obj in queryset:
            self._record(request, "Deleted", obj)
        return super().log_deletions(request, queryset)

    def _record(self, request: HttpRequest, what: str, obj: Model, **details: Any) -> None:
        with acting(request):
            # An agent's public id is text; the key of a row's agent is not.
            agent_id = getattr(obj, "agent_id", "")
            services.record(
                f"{self.noun}{what}",
                details={"id": str(obj.pk), "name": str(obj), **details},
                agent_id=agent_id if isinstance(agent_id, str) else "",
            )
