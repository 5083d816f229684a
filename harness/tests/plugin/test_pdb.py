"""--pdb: the child keeps the terminal, so that the debugger works as in any test."""

from __future__ import annotations

import sys

import pytest

from .conftest import INSTALLED

pexpect = pytest.importorskip("pexpect")


def test_the_debugger_stops_in_the_disguised_test(pytester, run) -> None:
    test = pytester.makepyfile(
        """
        import os, pytest
        @pytest.mark.machine("mi355x")
        def test_it():
            found = os.path.exists("/dev/kfd")
            assert found == "no"
        """
    )
    named = "" if INSTALLED else "-p masquerade.plugin"
    child = pexpect.spawn(f"{sys.executable} -m pytest {named} --pdb {test}", timeout=60, encoding="utf-8")
    child.expect(r"\(Pdb\)")
    child.sendline("p 'found', found")
    child.expect(r"\('found', True\)")
    child.sendline("c")
    child.expect("1 failed")
    child.expect(pexpect.EOF)
