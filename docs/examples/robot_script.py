"""Robots in a plain script, with the model of the default agent.

In the folder of the installation, after its first start:

    DJANGO_SETTINGS_MODULE=komand.settings.worker PYTHONPATH=. .venv/bin/python docs/examples/robot_script.py
"""

import sys

import django

django.setup()

from agents_app.networks.definition import Network as Definition  # noqa: E402 - after django.setup()
from agents_app.networks.definition import Task  # noqa: E402
from agents_app.robots.failures import RobotError  # noqa: E402
from agents_app.robots.robot import Robot  # noqa: E402
from agents_app.robots.robot_network import Network  # noqa: E402

STOCK = {"apple": 17, "pear": 23}


def stock_of(fruit: str) -> int:
    """Return the number of pieces of a fruit in stock."""
    return STOCK[fruit]


clerk = Robot(
    "clerk",
    system_prompt="You answer questions about the stock.",
    tools=["calculator", stock_of],
    token_budget=50_000,
    on_content=sys.stdout.write,
    on_tool_result=lambda call: print(f"[{call.tool} {call.arguments}: {call.text_for_model}]"),
)
writer = Robot("writer", tools="none")

try:
    result = clerk.run("What is 17*23?")
    print(f"\n{len(result.tool_calls)} tool call, {result.duration:.1f} seconds")
    tasks = (
        Task("count", "clerk", "What is 5*5?"),
        Task("report", "writer", "echo {{ tasks.count.text }}", ("count",)),
    )
    report = Network(Definition("stock", tasks), {"clerk": clerk, "writer": writer}).run()
    print(f"\n{report.results['count'].status}, {report.results['report'].status}")
except RobotError as error:
    sys.exit(f"{error.code}: {error.message}")
