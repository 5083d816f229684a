"""How a command ends: exit statuses, and which error gives which. Bad input never ends in a traceback of ours."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

import click

FAILED = 1
USAGE = 2
TOOL = 3
INTERRUPTED = 130  # 128 + SIGINT, as shells count


class ToolError(click.ClickException):
    """masquerade itself failed: exit status 3."""

    exit_code = TOOL


class Ended(KeyboardInterrupt):
    """A signal asked this process to end: it does so as after Ctrl-C, with 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Ended by {signal.Signals(number).name}")
        self.status = 128 + number


def status_of(stop: BaseException) -> int:
    """The exit status after an interruption."""
    return stop.status if isinstance(stop, Ended) else INTERRUPTED


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
            with _orderly_end():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except (KeyboardInterrupt, click.Abort) as stop:
            click.echo(f"\n{str(stop) or 'Interrupted'}.", err=True)
            raise click.exceptions.Exit(status_of(stop)) from None
        except Exception as error:
            raise _as_ours(error) from error


@contextmanager
def _orderly_end() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so that servers end, what is known is told, and no file is left.

    A signal that is ignored, as under nohup, or that somebody else handles, stays so.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for each in before:
            signal.signal(each, signal.SIG_IGN)  # asked once is asked: the end is not to be broken off
        raise Ended(number)

    before: list[int] = []
    if current_thread() is main_thread():
        before += [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for each in before:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in before:  # once ended they stay ignored
            if signal.getsignal(each) is end:
                signal.signal(each, signal.SIG_DFL)


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
    from masquerade.stage import InterpreterError, StageError, SubjectError

    if isinstance(error, (MachineError, UnknownMachineError, SubjectError, InterpreterError)):
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
