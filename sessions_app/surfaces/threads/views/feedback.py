"""Feedback on threads and messages."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import feedback
from sessions_app.surfaces.base.openapi.operations import Answer, Operation
from sessions_app.surfaces.base.openapi.schemas import ref
from sessions_app.surfaces.threads import responses
from sessions_app.surfaces.threads.requests import FeedbackBody, FeedbackQuery
from sessions_app.surfaces.threads.views.base import ThreadsView


class FeedbackList(ThreadsView):
    @Operation("List feedback", ref("ThreadFeedbackPage"), query=FeedbackQuery)
    def get(self, request: Request) -> Response:
        query, fields = self.checked_query, self.query()
        rows = feedback.list_feedback(self.principal.user, mine=bool(fields["mine"])).filter(**query.between())
        if fields["target_id"]:
            rows = rows.filter(target_id__in=fields["target_id"])
        for name in ("target_type", "rating"):
            if fields[name]:
                rows = rows.filter(**{name: fields[name]})
        items = [responses.ThreadFeedbackOut.of(row) for row in query.page_of(rows, "created_at")]
        return Response(responses.page(items, rows.count(), fields))

    @Operation(
        "Give feedback",
        responses.ThreadFeedbackOut,
        status=201,
        body=FeedbackBody,
        answers={200: Answer("It exists already.", responses.ThreadFeedbackOut)},
        errors=[404],
    )
    def post(self, request: Request) -> Response:
        row, is_new = feedback.submit(self.principal.user, self.body())
        return Response(responses.ThreadFeedbackOut.of(row), status=201 if is_new else 200)


class FeedbackDetail(ThreadsView):
    @Operation("Delete feedback", status=204)
    def delete(self, request: Request, feedback_id: UUID) -> Response:
        feedback.delete(self.principal.user, feedback_id)
        return Response(status=204)
