"""One HTML file with everything in it: the page, its script and the run, for any browser, without a network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from pathlib import Path

from masquerade.report.html_data import document
from masquerade.report.results import Results

_ASSETS = Path(__file__).parent / "assets"

#: In the order in which they run, as one script.
SCRIPTS = ("dom", "model", "filters", "list", "matrix", "findings", "golden", "detail", "main")


def render(results: Results) -> str:
    """The run as one page.

    The policy in its head lets no script run but ours, and nothing be loaded or sent. What a subject supplied stands in
    one block of JSON, and the script makes text nodes of it.
    """
    style = _asset("report.css")
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    run = document(results)
    parts = {
        "title": html.escape(run["headline"]),
        "policy": html.escape(_policy(style, script)),
        "style": style,
        "data": _embedded(run),
        "script": script,
    }
    page = _asset("report.html")
    before, *rest = page.split("<!--=")
    out = [before]
    for piece in rest:
        name, _, after = piece.partition("=-->")
        out += (parts[name], after)
    return "".join(out)


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Source: Content Security Policy Level 3, section 2.3.1, hash sources."""
    rules = {"style-src": _digest(style), "script-src": _digest(script)}
    rules |= dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(value: object) -> str:
    """JSON that ends no script element: it holds no `<`, and is ASCII."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
