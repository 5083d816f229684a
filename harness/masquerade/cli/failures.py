"""How a command ends: exit statuses, and which error gives which. Bad input never ends in a traceback of ours."""

from __future__ import annotations

import sys
from typing import Any

import click

FAILED = 1
USAGE = 2
TOOL = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells count


class ToolError(click.ClickException):
    """masquerade itself failed: exit status 3."""

    exit_code = TOOL


class BadConfiguration(click.ClickException):
    """A configuration or a golden file cannot be used: exit status 2, as for wrong usage."""

    exit_code = USAGE


class Commands(click.Group):
    """A group that gives every error its exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added: the most used first."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; errors of other layers become click's.

        Raises: click.UsageError (2), ToolError (3), click.exceptions.Exit with the status that is to be had.
        """
        _never_fail_on_encoding()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo("\nInterrupted.", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except Exception as error:
            raise _as_ours(error) from error


def _never_fail_on_encoding() -> None:
    """A terminal that cannot show a character gets its escape: a name in the subject's code must not end the report."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _as_ours(error: Exception) -> Exception:
    # Imported here: a command that goes well needs neither.
    from masquerade.contracts import ConfigurationError
    from masquerade.machines import MachineError, UnknownMachineError
    from masquerade.stage import StageError, SubjectError

    if isinstance(error, (MachineError, UnknownMachineError, SubjectError)):
        return click.UsageError(str(error))
    if isinstance(error, ConfigurationError):
        count = len(error.problems)
        return BadConfiguration(f"{count} mistake{'s' if count > 1 else ''} in the configuration\n{error}")
    if isinstance(error, StageError):
        return ToolError(str(error))
    import traceback

    traceback.print_exception(error)
    return ToolError(
        f"{type(error).__name__}: {error}. This is a fault of masquerade; please report it with the lines above."
    )
