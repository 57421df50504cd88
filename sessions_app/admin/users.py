"""Users and groups in the admin. Only a superuser can grant permissions or change another superuser."""

from collections.abc import Collection
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.forms.widgets import Script
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from unfold.admin import StackedInline
from unfold.decorators import display
from unfold.enums import ActionVariant
from unfold.forms import AdminPasswordChangeForm, PaginationInlineFormSet, UserChangeForm

from agents_app.models import UserCostCap
from agents_app.rights import SET_COST_CAPS
from audit_app.admin_base import names
from audit_app.admin_base.base import AuditedAdmin, acting, get_or_404, render_page, reported
from audit_app.admin_base.dialogs import back_to
from audit_app.admin_base.permissions import granted_by
from audit_app.admin_base.theme import Dialog, act
from audit_app.kernel.safe_text import visible
from audit_app.rights import holds
from sessions_app.admin.user_forms import NewUserForm, RolesField
from sessions_app.identity import invitations, logins, roles, sender_links
from sessions_app.identity.devices import describe
from sessions_app.rights import CHANGE_USERS
from sessions_app.surfaces.base.addresses import origin_for

# An operator who could set these could grant themselves any permission.
_RIGHTS = ("is_staff", "is_superuser", "groups", "user_permissions")


def _user_actors(keys: Collection[str], user: Any) -> dict[str, str]:
    ids = {key.removeprefix("user:") for key in keys if key.startswith("user:")}
    rows = User.objects.filter(pk__in=[int(pk) for pk in ids if pk.isdecimal()])
    return {f"user:{pk}": name for pk, name in rows.values_list("pk", "username")} if ids else {}


names.register_names("actor", _user_actors)


class _CostCapFormSet(PaginationInlineFormSet):
    """The form of one row. Django derives no prefix, as nothing on the user leads to the row."""

    @classmethod
    def get_default_prefix(cls) -> str:
        return "cost_cap"


class CostCapInline(StackedInline):
    """The cost caps of the user, in place of those of the settings."""

    model = UserCostCap
    formset = _CostCapFormSet
    verbose_name_plural = "Cost caps"
    fields = (("per_day", "per_month"),)
    max_num = 1

    has_change_permission = granted_by(SET_COST_CAPS)
    has_add_permission = has_delete_permission = has_change_permission


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(AuditedAdmin, DjangoUserAdmin):  # type: ignore[misc, type-arg]  # the theme widens Django's types
    class Media:
        js: ClassVar[Any] = [Script("js/copy-buttons.js", type="module")]

    noun = "User"
    form = UserChangeForm
    add_form = NewUserForm
    add_form_template: ClassVar[Any] = None  # Django's says that one can edit more afterwards
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "last_login")
    list_filter_submit = True
    actions_detail: Any = ("invite", "sign_out")
    filter_horizontal = ("user_permissions",)
    # The theme's class comes first and has an empty one.
    add_fieldsets: Any = (
        (None, {"fields": ("username", "email", "usable_password", "password1", "password2")}),
        ("Roles", {"fields": ("groups", "is_staff")}),
    )
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("username", "password")}),
        ("Personal info", {"fields": ("first_name", "last_name", "email")}),
        ("Roles", {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        ("Single permissions", {"fields": ("user_permissions",), "classes": ("collapse",)}),
        ("Important dates", {"fields": ("last_login", "date_joined")}),
    )

    def get_inlines(self, request: HttpRequest, obj: User | None) -> Any:
        return (CostCapInline,) if obj else ()

    def has_sign_out_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        user = self.get_object(request, object_id) if object_id else None
        return holds(request.user, CHANGE_USERS) and _may_touch(request, user)

    @act(
        "Sign out everywhere",
        path="sign-out",
        icon="logout",
        permissions=["sign_out"],
        variant=ActionVariant.DANGER,
        dialog=Dialog(
            "Sign this user out everywhere?",
            "All browsers and programs have to log in again. API keys stay valid.",
            "Sign out everywhere",
        ),
    )
    def sign_out(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        user = get_or_404(self, request, object_id)
        with acting(request):
            ended = logins.sign_out_everywhere(user)
        messages.success(request, f"{visible(user.get_username())} is signed out. Ended sessions and tokens: {ended}.")
        return back_to(request, "admin:auth_user_change", object_id)

    def has_invite_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        user = self.get_object(request, object_id) if object_id else None
        return self.has_change_permission(request, user) and (user is None or invitations.is_open(user))

    @act(
        "New invitation",
        path="invite",
        icon="mail",
        permissions=["invite"],
        dialog=Dialog(
            "Create an invitation link?",
            "By this link the user sets the first password. Earlier links of this user end.",
            "Create the link",
        ),
    )
    def invite(self, request: HttpRequest, form: Any, object_id: str) -> HttpResponse:
        """Show the link in the dialog only: it is in no message and no redirect."""
        user = get_or_404(self, request, object_id)
        with reported(request):
            return self._invited(request, user, "invitation_dialog.html")
        return back_to(request, "admin:auth_user_change", object_id)

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        """Show the invitation in this response only."""
        if not getattr(obj, "is_invited", False):
            return super().response_add(request, obj, post_url_continue)
        return self._invited(request, obj, "invitation.html")

    def _invited(self, request: HttpRequest, user: User, template: str) -> HttpResponse:
        with acting(request):
            path = reverse("login-invitation", args=[invitations.invite(user)])
        shown = {"link": f"{origin_for(request)}{path}", "invited": user, "days": invitations.DAYS}
        response = render_page(request, self, f"admin/auth/user/{template}", title="Invitation", **shown)
        response.headers["Cache-Control"] = "no-store"
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.is_staff |= roles.open_admin(form.cleaned_data.get("groups", ()))
        super().save_model(request, obj, form, change)
        obj.is_invited = getattr(form, "is_invited", False)  # for response_add, which handles the same request

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "groups":
            return RolesField()
        if db_field.name == "is_staff":
            kwargs |= {
                "label": "Opens the admin",
                "help_text": "Set by itself for a new user with a role of use there.",
            }
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj:
            return (*fieldsets, ("Logins", {"fields": ("devices", "linked_channels")}))
        return fieldsets if request.user.is_superuser else fieldsets[:1]

    @display(description="Logged in on")
    def devices(self, user: User) -> str:
        rows = logins.list_logins(user)
        lines = ((describe(row.user_agent), row.address, f"{row.last_seen_at:%Y-%m-%d %H:%M} UTC") for row in rows)
        return format_html_join(mark_safe("<br>"), "{} · {} · last used {}", lines) or "–"

    @display(description="Linked channels")
    def linked_channels(self, user: User) -> str:
        rows = (row for row in sender_links.list_links(user) if row.linked_at)
        lines = (
            (
                row.account,
                visible(row.sender_name or row.sender_id),
                visible(row.sender_id),
                f"{row.linked_at:%Y-%m-%d %H:%M}",
            )
            for row in rows
        )
        return format_html_join(mark_safe("<br>"), "{} · {} ({}) · since {} UTC", lines) or "–"

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        always = ("last_login", "date_joined", "devices", "linked_channels")
        return always if request.user.is_superuser else (*always, *_RIGHTS)

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and _may_touch(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _may_touch(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return no actions: the bulk deletion would not check the permission for each user."""
        return {}


@admin.register(Group)
class GroupAdmin(AuditedAdmin, DjangoGroupAdmin):  # type: ignore[misc]  # the theme widens Django's types
    noun = "Group"
    empty_text = "Roles give people rights over what others own."

    def has_change_permission(self, request: HttpRequest, obj: Group | None = None) -> bool:
        return super().has_change_permission(request, obj) and request.user.is_superuser

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and request.user.is_superuser


def _may_touch(request: HttpRequest, obj: User | None) -> bool:
    """Return whether the operator may change the user: not other staff, nor one who may do more than they may.

    Otherwise they could set that user's password, log in, and have these permissions.
    """
    if request.user.is_superuser or obj is None or obj.pk == request.user.pk:
        return True
    return not (obj.is_staff or obj.is_superuser) and obj.get_all_permissions() <= request.user.get_all_permissions()
