"""The kernels' modules can be imported where Triton is not, or is too old to have Gluon."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTS = """
import pkgutil, sys
sys.modules[{missing!r}] = None
import blockscale.kernels.triton as package
for found in pkgutil.iter_modules(package.__path__):
    __import__(f"{{package.__name__}}.{{found.name}}")
    print(found.name)
"""


@pytest.mark.parametrize("missing", ["triton", "triton.experimental", "triton.language.extra.cuda"])
def test_all_modules_of_kernels_are_imported_without(missing: str) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS.format(missing=missing)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"fp8_block_gemm_hopper", "mxfp4_hopper", "ocp_mx_linear"} <= set(done.stdout.split())
