"""Issues short-lived session tokens, whose claims clients read, for an API key or the token of a login."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.identity import rate_limits, session_tokens
from sessions_app.identity.actor_names import display_name
from sessions_app.identity.principal import Principal
from sessions_app.identity.request_admission import admit_bearer
from sessions_app.surfaces.agent_messages.agent_runs import ACCOUNT, PROJECT
from sessions_app.surfaces.agent_messages.views.base import AgentsView
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import TEXT, record


class TokenIssue(AgentsView):
    is_public = True  # `post` admits the caller: a read-only key gets a read-only token by POST

    @Operation("Get a read-only token", record({"token": TEXT}), access="bearer")
    def post(self, request: Request) -> Response:
        principal = admit_bearer(request._request, rate_limits.api_limit())
        claims = _claims(principal, request.build_absolute_uri("/")[:-1])
        return Response({"token": session_tokens.issue_session_token(principal, claims)})


def _claims(principal: Principal, base_url: str) -> dict[str, Any]:
    user, account = principal.user, {"id": ACCOUNT, "name": "Komand"}
    return {
        "iss": base_url,
        "name": display_name(user),
        "email": user.email,
        "type": "apikey" if principal.kind == "api_key" else "user",
        "user_id": f"user:{user.pk}",
        "account": account,
        "accounts": [account],
        "account_roles": [],
        "project": {"id": PROJECT, "name": "Default", "account": ACCOUNT},
        "project_roles": [],
        "apps": [],
        "endpoints": {"studio": base_url, "store": base_url, "token": base_url},
    }
