"""Whose a read is: that of the body that is executed, of who calls a function which keeps it, or everybody's."""

from __future__ import annotations

import sys

from masquerade.stage.trace.ops import Op
from masquerade.stage.trace.tracer import Tracer
from masquerade.watch.reads import ALL_NAMES
from masquerade.watch.recorder import HERE


class Readers(dict[str, None]):
    """In the place of one list of reads: what no body, or the import system of all, read alone."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __setitem__(self, path: str, value: None) -> None:
        body = self._tracer.body()
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
            frame = frame.f_back
        by_import = frame.f_code.co_filename.startswith("<frozen importlib.")
        if body is None or (by_import and path.endswith(("/", ALL_NAMES))):
            super().__setitem__(path, None)  # the import system lists a folder once for all
        elif by_import or path in body.reads:
            body.reads[path] = None
        else:
            _, rows, chain = self._tracer.where(frame, follow=True)
            body.reads[path] = None
            if chain:
                self._tracer.trace.took(body, Op("read", path, rows, chain))
