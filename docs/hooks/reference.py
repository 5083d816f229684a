"""Makes the pages of the reference from the code and the schema, each time that the site is built."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

#: What users import, by module.
PYTHON = ("masquerade.stage", "masquerade.testing", "masquerade.contracts", "masquerade.machines")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs when it has found its files."""
    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page()) + "\n"))
    return files


def commands() -> Iterator[str]:
    """The command line, from the commands themselves."""
    from masquerade.cli import main

    yield "# Command line\n"
    yield from _command("masquerade", main, 2)


def _command(name: str, command: click.Command, depth: int) -> Iterator[str]:
    ctx = click.Context(command, info_name=name)
    yield f"{'#' * depth} {name}\n" if depth > 2 else ""
    yield f"    {command.get_usage(ctx).removeprefix('Usage: ')}\n"
    yield f"{_prose(command.help or '')}\n"
    rows = [row for param in command.get_params(ctx) if (row := param.get_help_record(ctx))]
    if rows:
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| `{_cell(option)}` | {_cell(text)} |" for option, text in rows)
        yield ""
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            made = command.get_command(ctx, sub)
            if made is not None:
                yield from _command(f"{name} {sub}", made, depth + 1)


def _prose(text: str) -> str:
    """Click's help as Markdown: what stands behind its mark is set as it is."""
    out = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            title, _, rest = block.removeprefix("\b\n").partition("\n")
            out.append(f"{title}\n")
            block = "\n".join(f"    {line}" for line in inspect.cleandoc(rest).splitlines())
        out.append(block)
    return "\n\n".join(out)


def configuration() -> Iterator[str]:
    """The settings, from the classes that read them."""
    from masquerade.contracts.reference import markdown

    yield "# Configuration\n"
    yield "The settings of `masquerade.toml`, or of `[tool.masquerade]` in `pyproject.toml`."
    yield "[Contracts](../contracts.md) tells what they are for.\n"
    yield markdown()


def report() -> Iterator[str]:
    """The JSON report, from its published schema."""
    from masquerade.report.json_report import schema

    loaded = schema()
    yield "# Report\n"
    yield f"{loaded['description']}\n"
    yield "`--report json:FILE` writes it. Its JSON Schema, `masquerade/report/schema.json`, ends this page.\n"
    yield from _fields("The document", loaded)
    for name, each in loaded["$defs"].items():
        if "properties" in each:
            yield from _fields(f"A {name}", each)
        elif "enum" in each or "anyOf" in each:
            yield f"## A {name}\n"
            yield f"{each.get('description', '')} {_type(each)}\n"
    yield "## The schema\n"
    yield "```json"
    yield json.dumps(loaded, indent=2)
    yield "```"


def _fields(title: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    if "description" in schema and title != "The document":
        yield f"{schema['description']}\n"
    yield "| field | type | |"
    yield "|---|---|---|"
    for name, each in schema["properties"].items():
        optional = "" if name in schema.get("required", ()) else " Not always there."
        yield f"| `{name}` | {_cell(_type(each))} | {_cell(each.get('description', ''))}{optional} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return " or ".join(map(_type, schema[key]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any value"))


def machines() -> Iterator[str]:
    """The zoo, from its files."""
    from masquerade.machines import names, resolve

    yield "# Machines\n"
    yield "Those that come with masquerade; `masquerade machines NAME` shows one with the source of each value."
    yield "[Add a machine](../machines.md) tells how to make one, and what `h200x8` and `mi355x+aiter` mean.\n"
    yield "| machine | platform | arch | what it is |"
    yield "|---|---|---|---|"
    for machine in map(resolve, names()):
        also = f" Also {', '.join(f'`{alias}`' for alias in machine.aliases)}." if machine.aliases else ""
        yield f"| `{machine.id}` | {machine.platform} | `{machine.arch}` | {_cell(machine.summary)}{also} |"


def python() -> Iterator[str]:
    """What can be imported, from its docstrings."""
    yield "# Python\n"
    for name in PYTHON:
        module = import_module(name)
        yield f"## {name}\n"
        yield f"{_doc(module)}\n"
        for public in module.__all__:
            yield from _entry(public, getattr(module, public))


def _entry(name: str, value: Any) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    plain = inspect.isclass(value) and issubclass(value, Exception)
    yield f"### {name}\n"
    yield f"```python\n{name}{'' if plain else _signature(value)}\n```\n"
    yield f"{_doc(value)}\n"
    members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
    for member, function in members:
        if not member.startswith("_") and function.__doc__ and member in vars(value):
            yield f"```python\n{name}.{member}{_signature(function)}\n```\n"
            yield f"{_doc(function)}\n"


def _signature(value: Any) -> str:
    """On one line, or a parameter a line; annotations are texts there, and stand without their quotes."""
    signature = inspect.signature(value)
    text = str(signature).replace("'", "")
    if len(text) < 80:
        return text
    before, _, after = text.rpartition(")")
    rows = [f"    {parameter},".replace("'", "") for parameter in signature.parameters.values()]
    return "\n".join(["(", *rows, f"){after}"]) if before else text


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "configuration": configuration,
    "report": report,
    "machines": machines,
    "python": python,
}
