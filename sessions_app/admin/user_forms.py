"""The form of a new user: a password or an invitation, and roles with what they allow."""

from typing import Any

from django import forms
from django.contrib.auth.models import Group, User
from unfold.forms import UserCreationForm
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from sessions_app.identity import roles

_INVITATION, _PASSWORD, _NONE = "invitation", "true", "false"  # Django knows the last two
_WAYS = {
    _INVITATION: "Invitation link: the person sets the password",
    _PASSWORD: "Password that you enter now",
    _NONE: "No password: OpenID Connect only",
}


class RolesField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # not subscriptable when run
    """Groups, each with what it allows."""

    def __init__(self, **options: Any) -> None:
        options |= {"required": False, "label": "Roles", "widget": UnfoldAdminCheckboxSelectMultipleWidget()}
        options["help_text"] = "None: a user of the chat, without rights over what belongs to others."
        super().__init__(Group.objects.order_by("pk"), **options)

    def label_from_instance(self, group: Any) -> str:
        description = roles.DESCRIPTIONS.get(group.name, "")
        return f"{group.name}: {description}" if description else str(group.name)


class NewUserForm(UserCreationForm):
    """The form of a new user. `is_invited`: the person gets a link instead of a password."""

    is_invited = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        login: Any = self.fields["usable_password"]
        login.label, login.initial, login.help_text = "Login", _INVITATION, "The link is shown once, after saving."
        login.choices = login.widget.choices = list(_WAYS.items())

    def clean_email(self) -> str:
        """Refuse the address of another user: it stands for the user name at the login."""
        email = str(self.cleaned_data["email"])
        if email and User.objects.filter(email__iexact=email).exists():
            raise forms.ValidationError("Another user has this address.")
        return email

    def clean(self) -> Any:
        if self.cleaned_data.get("usable_password") == _INVITATION:
            self.is_invited, self.cleaned_data["usable_password"] = True, _NONE
        return super().clean()
