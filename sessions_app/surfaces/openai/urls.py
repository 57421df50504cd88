"""Routes of views, beside those of consumers.py. The Threads API has other names under /v1; the rest is unknown."""

from django.urls import path, re_path

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.openai import conversation_views, file_views, views

app_name = "openai"
_CONVERSATION = "v1/conversations/<str:conversation_id>"

urlpatterns = [
    path("v1/models", views.ModelList.as_view(), name="model-list"),
    path("v1/models/<str:model>", views.ModelDetail.as_view(), name="model-detail"),
    path("v1/responses/<str:response_id>/input_items", views.ResponseInput.as_view(), name="response-input"),
    path("v1/files", file_views.FileList.as_view(), name="file-list"),
    path("v1/files/<str:file_id>", file_views.FileDetail.as_view(), name="file-detail"),
    path("v1/files/<str:file_id>/content", file_views.FileContent.as_view(), name="file-content"),
    path("v1/conversations", conversation_views.ConversationList.as_view(), name="conversation-list"),
    path(_CONVERSATION, conversation_views.ConversationDetail.as_view(), name="conversation-detail"),
    path(f"{_CONVERSATION}/items", conversation_views.ConversationItems.as_view(), name="conversation-items"),
    path(
        f"{_CONVERSATION}/items/<str:item_id>", conversation_views.ConversationItem.as_view(), name="conversation-item"
    ),
    re_path("^v1/", UnknownRoute.as_view(), name="unknown"),
]
