"""Buildkite: the annotation of a build, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from masquerade.report.groups import distinct
from masquerade.report.markdown import document
from masquerade.report.results import Results

#: Bytes of an annotation: Buildkite takes less than 1 MiB.
MOST_BYTES = 1024 * 1024 - 1


def render(results: Results) -> str:
    """The body of the annotation."""
    return document(results, MOST_BYTES)


def style(results: Results) -> str:
    """`error`, `warning` or `success`: the colour of the annotation."""
    if results.failed or results.interrupted:
        return "error"
    return "warning" if distinct(results) else "success"


def context(environ: Mapping[str, str]) -> str:
    """What tells this annotation from others of the build: the same each time that the same step runs.

    A step that ran again replaces its annotation; two steps, or two jobs of a parallel step, keep one each.
    Source: Buildkite's list of environment variables.
    """
    step = environ.get("BUILDKITE_STEP_KEY") or environ.get("BUILDKITE_LABEL") or ""
    parts = ["masquerade", re.sub(r"[^A-Za-z0-9._-]+", "-", step).strip("-"), environ.get("BUILDKITE_PARALLEL_JOB", "")]
    return "-".join(part for part in parts if part)[:100]
