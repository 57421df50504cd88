"""What all plain views of this surface share: who may come in, errors, bodies, queries, threads."""

from typing import Any, TypeVar

from django.http import HttpRequest
from rest_framework import serializers

from sessions_app.access import access_session
from sessions_app.identity import rate_limits
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.threads import errors
from sessions_app.surfaces.threads.admission import admit

S = TypeVar("S", bound=serializers.Serializer[Any])


class ThreadsView(PlainView):
    """One resource of this surface."""

    @staticmethod
    def admit(request: HttpRequest, limit: rate_limits.Limit) -> Principal:
        return admit(request, limit)

    def body(self, serializer_class: type[serializers.Serializer[Any]], *, partial: bool = False) -> dict[str, Any]:
        fields: dict[str, Any] = errors.checked(
            serializer_class(data=self.request.data, partial=partial)
        ).validated_data
        return fields

    def query(self, serializer_class: type[S]) -> S:
        given = self.request.query_params
        asked: dict[str, Any] = given.dict()  # of a QueryDict, DRF would read a missing boolean as false
        for name, field in serializer_class().fields.items():
            if isinstance(field, serializers.ListField) and name in given:
                asked[name] = given.getlist(name)
        return errors.checked(serializer_class(data=asked))

    def thread(self, thread_id: str) -> Session:
        """Raises NotFound."""
        return access_session(self.principal.user, thread_id)
