"""A progress bar on standard error, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from masquerade.stage.record import Record


@contextmanager
def progress(total: int) -> Iterator[Callable[[Record], None]]:
    """A function to call with each record that has come."""
    if not sys.stderr.isatty():
        yield lambda record: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from masquerade.report.text import clean, clip

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, last="")

        def advance(record: Record) -> None:
            bar.update(task, advance=1, last=clip(clean(record.subject), 40))

        yield advance
