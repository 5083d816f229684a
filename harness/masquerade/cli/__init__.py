"""The command line: one module per subcommand. Each imports what it needs when it runs, so that all start at once."""

from __future__ import annotations

import click

from masquerade import __version__
from masquerade.cli.check import check
from masquerade.cli.ci import ci
from masquerade.cli.diff import diff
from masquerade.cli.doctor import doctor
from masquerade.cli.failures import Commands
from masquerade.cli.machines import machines
from masquerade.cli.report import report
from masquerade.cli.run import run
from masquerade.cli.scan import scan


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="masquerade", message="%(prog)s %(version)s")
def main() -> None:
    """Run any Python code as if on a GPU machine that is not here, watch what it does, and judge it.

    \b
    Exit status:
      0    all that was checked holds
      1    something does not
      2    wrong usage or configuration, or nothing to check
      3    masquerade itself failed
      130  interrupted (Ctrl-C)
      143  ended by SIGTERM
    """


for command in (scan, check, run, report, diff, machines, ci, doctor):
    main.add_command(command)
