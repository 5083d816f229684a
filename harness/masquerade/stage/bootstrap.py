"""The line that starts masquerade's child side in an interpreter where it is not installed.

It loads the package from its folder without a sys.path entry: the subject must not find what else lies beside it.
"""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: How the last words of an older Python end.
TOO_OLD = "is not supported"

#: Runs in whatever Python it is given to: the first lines are those that any can read.
_LINE = """\
import sys
if sys.version_info < (3, 10): sys.exit('Python %d.%d is not supported' % sys.version_info[:2])
sys.path[:1] = [] if sys.path[:1] == [''] else sys.path[:1]
import importlib.util as _u
_s = _u.spec_from_file_location('masquerade', {init!r}, submodule_search_locations=[{package!r}])
_m = _u.module_from_spec(_s)
sys.modules['masquerade'] = _m
_s.loader.exec_module(_m)
del _u, _s, _m
from {module} import {function} as _start
_start({arguments})
"""


def line(module: str, function: str, *arguments: object) -> str:
    """Python source for `-c` that calls `function(*arguments)` of a child-side module of masquerade."""
    text = ", ".join(repr(argument) for argument in arguments)
    return _LINE.format(
        init=os.path.join(PACKAGE, "__init__.py"), package=PACKAGE, module=module, function=function, arguments=text
    )
