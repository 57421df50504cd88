import pytest

from agents_app.providers.refused_parameters import find_refused

OPTIONAL = ("stream_options", "parallel_tool_calls", "max_completion_tokens", "max_tokens", "reasoning_content")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"message": "Unrecognized request argument supplied: stream_options"}, "stream_options"),
        (
            {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
            },
            "max_tokens",
        ),
        ({"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}, "max_tokens"),
        ({"error": {"message": "parallel_tool_calls is not supported by this model"}}, "parallel_tool_calls"),
        (
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "max_completion_tokens"], "msg": "Extra inputs"}]},
            "max_completion_tokens",
        ),
        ({"message": "max_tokens and max_completion_tokens cannot both be set"}, "max_tokens"),
        ({"message": "Extra field", "param": "messages.1.reasoning_content"}, "reasoning_content"),
        ('Unknown name "stream_options": Cannot find field.', "stream_options"),
        ({"message": "Unsupported parameter: 'tools'", "param": "tools"}, ""),
        ({"message": "max_tokens is too large: 100000", "param": "max_tokens"}, ""),
        ({"message": "messages.0.content: unexpected type"}, ""),
        (None, ""),
    ],
)
def test_a_refused_parameter_is_found_by_its_name(body: object, name: str) -> None:
    assert find_refused(body, OPTIONAL) == name


def test_only_what_was_sent_is_found() -> None:
    assert find_refused({"message": "Unknown parameter: stream_options", "param": "stream_options"}, ()) == ""
