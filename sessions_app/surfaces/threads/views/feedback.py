"""Feedback on threads and messages."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.surfaces.threads import feedback, responses
from sessions_app.surfaces.threads.requests import FeedbackBody, FeedbackQuery
from sessions_app.surfaces.threads.views.base import ThreadsView


class FeedbackList(ThreadsView):
    def get(self, request: Request) -> Response:
        query = self.query(FeedbackQuery)
        asked = query.validated_data
        rows = feedback.list_feedback(self.principal.user, mine=bool(asked["mine"])).filter(**query.between())
        if asked["target_id"]:
            rows = rows.filter(target_id__in=asked["target_id"])
        for name in ("target_type", "rating"):
            if asked[name]:
                rows = rows.filter(**{name: asked[name]})
        sign, start = "-" if asked["sort_dir"] == "DESC" else "", asked["offset"]
        shown = rows.order_by(f"{sign}created_at", f"{sign}id")[start : start + asked["limit"]]
        return Response(responses.page([responses.feedback(row) for row in shown], rows.count(), asked))

    def post(self, request: Request) -> Response:
        row, is_new = feedback.submit(self.principal.user, self.body(FeedbackBody))
        return Response(responses.feedback(row), status=201 if is_new else 200)


class FeedbackDetail(ThreadsView):
    def delete(self, request: Request, feedback_id: UUID) -> Response:
        feedback.delete(self.principal.user, feedback_id)
        return Response(status=204)
