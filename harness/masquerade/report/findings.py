"""One distinct finding as text: what happened, the line to mend, the way there, and whom it hits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from masquerade.report.groups import Group
from masquerade.report.text import clean, clip, first_line, last_lines, plural
from masquerade.stage.record import Line

_NAMED_MODULES = 3
_MOST_LINKS = 8  # of a chain: its first and last ones
_LAST_WORDS = 4
#: Kinds after which the subject cannot say more than what it had printed.
_CUT_SHORT = frozenset({"crash", "timeout", "exit"})
#: Where faulthandler begins to speak at a time limit: the blamed line says it better.
_STACK = "Stack (most recent call first):"

# What a subject wrote never begins a line of ours: CI logs obey lines that begin with "::" or "---".
_QUOTE = "    | "


def detailed(group: Group, shared: str = "") -> Text:
    """A finding of level error, in some lines. Names of machines go without `shared`, which was told of them all."""
    finding = group.finding
    text = Text(finding.kind, style="bold red")
    text.append(f"  {clip(clean(finding.what))}", style="bold")
    if finding.phase == "call":
        text.append("  (in the call)", style="dim")
    if finding.blame:
        _append(text, f"  {clean(str(finding.blame))}", "cyan")
        if finding.blame.code.strip():
            _append(text, f"{_QUOTE}{clip(clean(finding.blame.code.strip()))}")
    for message in _messages(group):
        _append(text, f"    says: {message}")
    if finding.kind in _CUT_SHORT:
        for line in last_lines(group.last_words.partition(_STACK)[0], _LAST_WORDS):
            _append(text, f"{_QUOTE}{line}", "dim")
    for follows in group.consequences:
        says = next(iter(_messages(follows)), "")
        what = clip(clean(follows.finding.what))
        _append(text, f"    then {what} on {_names(follows.machines, shared)}{f': {says}' if says else ''}", "dim")
    _append(text, f"    on {_names(group.machines, shared)}")
    _append(text, f"    in {_modules(group.subjects)}")
    if group.contracts:
        _append(text, f"    breaks {', '.join(map(clean, group.contracts))}")
    for link in _chain(finding.chain, finding.blame):
        _append(text, link, "dim")
    return text


def brief(group: Group) -> Text:
    """An import error of all machines, on one line."""
    finding = group.finding
    text = Text(f"  {clean(str(finding.blame))}" if finding.blame else "  no line to blame", style="cyan")
    says = next(iter(_messages(group)), "")
    text.append(f"  {clip(clean(finding.what))}{f': {says}' if says else ''}", style="bold")
    text.append(f"  ({plural(len(group.subjects), 'module')})", style="dim")
    return text


def quiet(group: Group, shared: str = "") -> Text:
    """A finding of level warn, on one line."""
    finding = group.finding
    where = f"  {clean(str(finding.blame))}" if finding.blame else ""
    reach = f"{plural(len(group.subjects), 'module')} on {_names(group.machines, shared)}"
    return Text(f"  {finding.kind}  {clip(clean(finding.what))}{where}  ({reach})", style="dim")


def _append(text: Text, line: str, style: str = "") -> None:
    text.append("\n")
    text.append(line, style=style)


def _messages(group: Group) -> Iterable[str]:
    shown = list(dict.fromkeys(first_line(message) for message in group.messages))
    yield from (message for message in shown[:2] if message)
    if len(shown) > 2:
        yield f"... and {len(shown) - 2} other messages"


def _names(machines: Sequence[str], shared: str) -> str:
    return ", ".join(clean(machine).removesuffix(shared) for machine in machines)


def _modules(subjects: Sequence[str]) -> str:
    named = ", ".join(clip(clean(subject)) for subject in subjects[:_NAMED_MODULES])
    if len(subjects) <= _NAMED_MODULES:
        return named
    return f"{plural(len(subjects), 'module')}: {named} and {len(subjects) - _NAMED_MODULES} more"


def _chain(chain: Sequence[Line], blame: Line | None) -> Iterator[str]:
    """The way to the blamed line and on from it, outermost first; the line itself was shown already."""
    at = next((index for index, link in enumerate(chain) if blame and str(link) == str(blame)), len(chain))
    for title, links in (("by way of", chain[:at]), ("and on to", chain[at + 1 :])):
        if links:
            yield f"    {title}"
            yield from _links(links)


def _links(links: Sequence[Line]) -> Iterator[str]:
    places = [clean(str(link)) for link in links]
    width = min(48, max(map(len, places)))
    skipped = len(links) - _MOST_LINKS
    for index, (link, place) in enumerate(zip(links, places, strict=True)):
        if skipped > 0 and _MOST_LINKS // 2 <= index < len(links) - _MOST_LINKS // 2:
            if index == _MOST_LINKS // 2:
                yield f"      ... {plural(skipped, 'link')} more ..."
            continue
        code = clip(clean(link.code.strip()), 80)
        yield f"      {place:<{width}}{f'  | {code}' if code else ''}".rstrip()
