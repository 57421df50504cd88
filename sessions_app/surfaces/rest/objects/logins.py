"""Logins of API clients, and tickets of streams."""

from typing import Any

from django.contrib.auth.models import User
from rest_framework.serializers import CharField, IntegerField

from sessions_app.identity.actor_names import display_name
from sessions_app.surfaces.base.serializers import CamelCaseSerializer, ObjectSerializer


class LoginBody(CamelCaseSerializer):
    email = CharField(max_length=254, help_text="E-mail address or user name.")
    password = CharField(max_length=4096, trim_whitespace=False)
    code = CharField(
        max_length=40, default="", allow_blank=True, help_text="Code of the second factor, if the user has one."
    )


class RefreshBody(CamelCaseSerializer):
    refresh_token = CharField(max_length=200)


class LogoutBody(CamelCaseSerializer):
    refresh_token = CharField(max_length=200, default="", help_text="Not needed if a JWT is sent as Bearer.")


class TokensOut(ObjectSerializer):
    token = CharField(source="access", help_text="A JWT.")
    refresh_token = CharField(source="refresh", help_text="Valid once.")


class UserOut(ObjectSerializer):
    id = CharField(source="pk")
    name = CharField()
    email = CharField()
    initials = CharField()

    @classmethod
    def of(cls, subject: User, **given: Any) -> dict[str, Any]:
        name = display_name(subject)
        parts = name.split()
        initials = f"{parts[0][0]}{parts[-1][0]}" if len(parts) > 1 else name[:2]
        return super().of(subject, name=name, initials=initials.upper(), **given)


class LoginOut(TokensOut):
    user = UserOut()


class TicketOut(ObjectSerializer):
    ticket = CharField()
    expires_in_seconds = IntegerField()
