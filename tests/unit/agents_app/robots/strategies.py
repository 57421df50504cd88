"""Arbitrary typed messages."""

from hypothesis import strategies as st

from agents_app.robots.messages import Role, StopReason, TextMessage, ToolCallMessage, ToolMessage, ToolResultMessage

TEXT = st.text(max_size=8)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(TEXT, PLAIN, max_size=2)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=2)
TOOLS = st.builds(ToolMessage, st.text(min_size=1, max_size=6), TEXT, OBJECTS)
CONTENTS = JSON.map(lambda value: {"data": value}) | TEXT.map(lambda text: {"error": text})
TEXTS = st.builds(TextMessage, st.sampled_from(Role), TEXT, st.none() | st.sampled_from(StopReason))
CALLS = st.builds(ToolCallMessage, st.just(Role.ASSISTANT), st.lists(TOOLS, max_size=2).map(tuple))
RESULTS = st.builds(ToolResultMessage, TOOLS, CONTENTS | OBJECTS)
MESSAGES = TEXTS | CALLS | RESULTS
