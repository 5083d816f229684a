"""Markdown as a browser would show it: rendered, then read back as elements and text."""

from __future__ import annotations

from html.parser import HTMLParser

from markdown_it import MarkdownIt


class Words(HTMLParser):
    """The elements of a rendered page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markdown: str) -> Words:
    return Words(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))
