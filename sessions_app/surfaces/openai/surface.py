"""The OpenAI protocol: chat completions, responses and models under /v1."""

from sessions_app.surfaces.base.surface import Surface
from sessions_app.surfaces.openai.errors import error_body

SURFACE = Surface(
    name="openai",
    title="OpenAI",
    prefixes=("/v1/",),
    error_body=error_body,
    urlconf="sessions_app.surfaces.openai.urls",
    consumers="sessions_app.surfaces.openai.consumers",
    openapi="sessions_app.surfaces.openai.openapi",
    upload_paths=(
        r"/v1/(chat/completions|responses(/input_tokens|/compact)?|files|embeddings|audio/transcriptions)/?(\?|$)",
    ),  # images, files and many texts are in the body
)
