"""The texts of the demo provider, in Markdown."""

FOOTER = "\n\n*Demo model · [Take the tour](/tour) · [Connect a real one](/connect-model)*"
TOUR = "**[Take the tour](/tour)** on the chat page: an approval, a crash survived, a team, in five minutes."

INTRODUCTION = f"""\
Hello! I am Komand's **built-in demo model**. I am a handful of rules, not a language model, but everything around me \
is real: the tools, the live stream, the history and the audit log.

{TOUR}

| Ask me | and I use |
| --- | --- |
| what is 17*23? | `calculator` |
| what time is it in Tokyo? | `date_time` |
| echo good morning | `echo` |
| https://example.com | `web_fetch` |
| write files/notes.md | `write_artifact` |
| ask me: tea or coffee? | `ask_user` |

Ask for several at once, and the tools run in parallel: *what is 17\\*23 and what time is it in Tokyo?* \
To see how answers look, send `/demo markdown`, `/demo table`, `/demo long` or `/demo error`.

**For a real model**, [connect one](/connect-model), or name it before the first start:

```sh
export OPENAI_API_KEY=sk-...
export OPENAI_BASE_URL=https://api.openai.com/v1   # or any compatible server
export KOMAND_MODEL=your-model
```"""

CALLING = "Let me look that up."
FOUND = "Here is what I found:"
DELEGATING = "I give each part to a workstream of its own."
TEAM_FOUND = "Here is what my team found:"
NOT_UNDERSTOOD = """\
I am the **demo model** and cannot answer free questions. I can show you an approval, a crash survived and a team: \
**[Take the tour](/tour)** · **[Connect a real model](/connect-model)**

Or try *what is 17\\*23 and what time is it in Tokyo?* Send *help* for more."""
NOT_OFFERED = "I would need {}, but this agent is not allowed to use that."
BEFORE_ERROR = "You asked to see a failure, so this answer stops right "
ERROR = "The demo model failed because you asked it to. Nothing is wrong; send another message."

_TABLE = """\
| Planet | Moons | Day (hours) | Year (days) |
| --- | ---: | ---: | ---: |
| Mercury | 0 | 4,222.6 | 88 |
| Venus | 0 | 2,802.0 | 225 |
| Earth | 1 | 24.0 | 365 |
| Mars | 2 | 24.7 | 687 |"""
_MARKDOWN = f"""\
## What an answer can contain

Text can be **bold**, *italic*, ~~struck through~~ or `code`, and contain [links](https://www.python.org/).

1. Numbered lists
2. and bulleted lists:
   - one
   - two

> A quotation is indented.

```python
def greet(name: str) -> str:
    return f"Hello, {{name}}!"
```

{_TABLE}"""
_PARAGRAPH = (
    "A message is stored before a worker starts to process it. A run consists of steps: each calls the model once and "
    "records the whole response, so that after a crash another worker resumes from the recorded steps. Meanwhile the "
    "text is streamed to every window that shows the session, with no text missing or doubled."
)
_LONG = "\n\n".join(f"**Part {part}.** {_PARAGRAPH}" for part in range(1, 17))

COMMANDS = {"markdown": _MARKDOWN, "table": _TABLE, "long": _LONG}
