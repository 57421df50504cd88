"""The texts of the demo provider, in Markdown."""

REAL_MODEL = (
    "Set `OPENAI_API_KEY` (and `OPENAI_BASE_URL` and `KOMAND_MODEL` for another OpenAI-compatible server) before the "
    "first start, or add a model provider in the admin."
)
FOOTER = (
    "\n\n*I am Komand's built-in demo model: a few rules, no intelligence. An administrator can connect a real model.*"
)

INTRODUCTION = f"""\
Hello! I am Komand's **built-in demo model**. I am a handful of rules, not a language model, but everything around me \
is real: the tools, the live stream, the history and the audit log.

| Ask me | and I use |
| --- | --- |
| what is 17*23? | `calculator` |
| what time is it in Tokyo? | `date_time` |
| echo good morning | `echo` |
| https://example.com | `web_fetch` |

Ask for several at once, and the tools run in parallel: *what is 17\\*23 and what time is it in Tokyo?* \
To see how answers look, send `/demo markdown`, `/demo table`, `/demo long` or `/demo error`.

**For a real model**, give Komand an endpoint:

```sh
export OPENAI_API_KEY=sk-...
export OPENAI_BASE_URL=https://api.openai.com/v1   # or any compatible server
export KOMAND_MODEL=your-model
```

{REAL_MODEL}"""

CALLING = {1: "Let me look that up.", 2: "Let me look both up."}
CALLING_MANY = "Let me look these up."
FOUND = "Here is what I found:"

NOT_UNDERSTOOD = """\
I am only the **demo model**, so I cannot answer that. I can do arithmetic, show the time, fetch web pages and echo \
text: try *what is 17\\*23 and what time is it in Tokyo?*, or send *help*."""

NOT_OFFERED = "I would use {tools} for that, but this agent is not allowed to use {it}."

BEFORE_ERROR = "You asked to see a failure, so this answer stops right "
ERROR = "The demo model failed because you asked it to. Nothing is wrong; send another message."

MARKDOWN = """\
## What an answer can contain

Text can be **bold**, *italic*, ~~struck through~~ or `code`, and contain [links](https://www.python.org/).

1. Numbered lists
2. and bulleted lists:
   - one
   - two

> A quotation is indented.

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

| Left | Right |
| :--- | ---: |
| apples | 3 |
| pears | 14 |

---

That is all."""

TABLE = """\
| Planet | Moons | Day (hours) | Year (days) |
| --- | ---: | ---: | ---: |
| Mercury | 0 | 4,222.6 | 88 |
| Venus | 0 | 2,802.0 | 225 |
| Earth | 1 | 24.0 | 365 |
| Mars | 2 | 24.7 | 687 |"""

_PARAGRAPHS = (
    "A message is stored before anything else happens. Only then does a worker start to process it. The worker may "
    "crash at any moment without losing the message.",
    "A run consists of steps. Each step calls the model once and records the whole response; the next step starts from "
    "the recorded ones. After a crash, another worker reads the recorded steps and resumes the run.",
    "Tools run beside the model, each with a time limit. A tool that only reads may run twice; one that changes "
    "something runs once, and if its outcome is unknown, the model is informed.",
    "Meanwhile the text of the model is streamed to every window that shows the session. A window that was closed for "
    "a while catches up first and then follows live, with no text missing or doubled.",
)
LONG = "\n\n".join(f"### Part {part}\n\n{paragraph}" for part, paragraph in enumerate(_PARAGRAPHS * 4, start=1))

COMMANDS = {"markdown": MARKDOWN, "table": TABLE, "long": LONG}


def calling(count: int) -> str:
    return CALLING.get(count, CALLING_MANY)


def not_offered(tools: list[str]) -> str:
    names = " and ".join(f"`{tool}`" for tool in tools)
    return NOT_OFFERED.format(tools=names, it="it" if len(tools) == 1 else "them")
