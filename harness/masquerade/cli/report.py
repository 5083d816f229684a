"""`masquerade report`: the JSON reports of several jobs as one, in any form."""

from __future__ import annotations

from pathlib import Path

import click

from masquerade.cli.failures import FAILED
from masquerade.cli.options import Reporting, reporting


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@reporting
@click.option("--all", "every", is_flag=True, help="List the modules without findings, too.")
def report(files: tuple[Path, ...], reporting: Reporting, every: bool) -> None:
    """Show JSON reports of earlier runs as one: the shards of a pipeline, or a report in another form.

    It ends with 1 where something does not hold, or where a run was cut short. Golden tables are not in a JSON report.

    \b
    Examples:
      masquerade report shard-*.json
      masquerade report report.json --report html:report.html
    """
    from masquerade.report.reading import ReportError, merge, read

    try:
        results = merge(read(file.read_text(encoding="utf-8", errors="replace"), str(file)) for file in files)
    except (ReportError, OSError) as error:
        raise click.UsageError(str(error)) from None
    if not results.records and not results.broken:
        raise click.UsageError(f"nothing to report: {', '.join(map(str, files))} holds no check")
    reporting.tell(results, every)
    if results.failed or results.interrupted or len(results.records) < results.planned:
        raise click.exceptions.Exit(FAILED)
