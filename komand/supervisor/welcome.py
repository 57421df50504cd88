"""The block that `manage.py up` prints when everything runs."""

import os
import sys
import threading
import webbrowser
from typing import Any

from komand.settings import env
from komand.supervisor.console import Screen
from komand.supervisor.options import Options

_EVERYONE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def link_lines(prepared: dict[str, Any], url: str) -> list[str]:
    """Return the line with the login link, if there is one."""
    path = prepared.get("login_link")
    return [f"  Log in       {url}{path}   (this link works once, for 30 minutes)"] if path else []


def open_browser(url: str, prepared: dict[str, Any]) -> None:
    """Open the page in the browser of a desktop, logged in; not where the terminal is on another machine."""
    has_desktop = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if has_desktop and not os.environ.get("SSH_CONNECTION") and env.flag("KOMAND_OPEN_BROWSER", default=True):
        address = url + (prepared.get("login_link") or "")
        threading.Thread(target=webbrowser.open, args=(address,), name="browser", daemon=True).start()


def login_line(prepared: dict[str, Any]) -> str:
    login = prepared.get("login")
    if login:
        return (
            f"  First login  {login['username']}  {login['password']}   (shown this once; {login['email']} works too)"
        )
    return f"  Login        as before (forgotten? {_python()} manage.py changepassword admin)"


def _python() -> str:
    """Return the path of this Python as a user would type it."""
    here = os.path.relpath(sys.executable)
    return sys.executable if here.startswith("..") else here


def model_lines(prepared: dict[str, Any], url: str) -> list[str]:
    """Return the lines about the current model, and how to choose another one."""
    provider = prepared["provider"]
    page = f"{url}/connect-model"
    if provider["kind"] != "demo":
        where = f" at {provider['base_url']}" if provider["base_url"] else ""
        return [
            f"  Model        {provider['model']} by {provider['name']}{where}",
            f"               another one: {page}",
        ]
    lines = ["  Model        demo: built in, no key, answers by simple rules and really calls the tools"]
    if env.text("OPENAI_API_KEY") or env.text("OPENAI_BASE_URL"):
        lines.append("               OPENAI_API_KEY and OPENAI_BASE_URL count at the first start of a data folder only")
    elif prepared["login"]:
        lines.append("               a real one: OPENAI_API_KEY, OPENAI_BASE_URL and KOMAND_MODEL at a first start, or")
    return [*lines, f"               a real one: {page}" if not prepared["login"] else f"               {page}"]


def block(options: Options, port: int, prepared: dict[str, Any], seconds: float, screen: Screen) -> list[str]:
    url = options.url(port)
    lines = [
        "",
        f"  {screen.paint('Komand is ready', 'bold')} at {screen.paint(url, 'green')}   ({seconds:.1f} s)",
        "",
        *link_lines(prepared, url),
        login_line(prepared),
        *model_lines(prepared, url),
        *([f"  Tour         {url}/tour"] if prepared["provider"]["kind"] == "demo" else []),
        f"  Data         {options.data_dir}",
        "  Stop         Ctrl-C",
    ]
    if options.host in _EVERYONE and not (env.text("KOMAND_PUBLIC_URL") or env.text("KOMAND_ALLOWED_HOSTS")):
        lines.append(
            "  Note         reachable from elsewhere only by names listed in KOMAND_ALLOWED_HOSTS or KOMAND_PUBLIC_URL"
        )
    return [*lines, ""]
