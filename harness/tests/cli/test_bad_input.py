"""Wrong usage ends with 2 and a line that names the thing, the value and the mend; never with a traceback of ours."""

from __future__ import annotations

import os
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Missing argument 'SUBJECT...'"),
        (("pkgg",), "did you mean pkg?"),
        (("src/pkg/kern.py",), "a subject is a module: src.pkg.kern"),
        (("pkg:",), "'pkg:' is no subject; write a module, pkg.mod, or a function in it, pkg.mod:func"),
        ((":f",), "':f' is no subject"),
        (("pkg..kern",), "'pkg..kern' is no subject"),
        (("pkg.*",), "'pkg.*' is a pattern; a subject is a module or a package: pkg, with all modules below it"),
        (("**.kern",), "'**.kern' is a pattern; a subject is a module or a package"),
        (("",), "'' is no subject"),
        (("pkg kern",), "there is no module"),
        (("pkg", "--on", "h1000"), "h100"),
        (("pkg", "--on", "nope"), "unknown machine 'nope'; `masquerade machines` lists them"),
        (("pkg", "--on", ","), "--on names no machine"),
        (("pkg", "--on", ""), "--on names no machine"),
        (("pkg", "--level", "devce-init=warn"), "did you mean device-init?"),
        (("pkg", "--level", "device-init=loud"), "known: error, warn, off"),
        (("pkg", "--level", "device-init"), "has no '='"),
        (("pkg", "--owner", "rocmm=aiter"), "did you mean rocm?"),
        (("pkg", "--owner", "rocm"), "names no module"),
        (("pkg", "--owner", "rocm=,"), "names no module"),
        (("pkg", "--owner", "rocm=a/b"), "'a/b' is no module name"),
        (("pkg", "--present", "flash-attn"), "no name of a package that Python can import"),
        (("pkg", "--absent", ","), "names no package"),
        (("pkg", "--present", "aiter", "--absent", "aiter"), "both --present and --absent: aiter"),
        (("pkg", "--stand-in", "pkg._C="), "'' is no module name; write it with dots, like pkg._C"),
        (("pkg", "--stand-in", "pkg/_C.so"), "'pkg/_C.so' is no module name"),
        (("pkg", "--stand-in", ","), "names no module"),
        (("pkg", "--stand-in", "pkg._C", "--absent", "pkg._C"), "both --stand-in and --absent: pkg._C"),
        (("pkg", "--stand-in", "pkg._C=gone"), "the stand-in of pkg._C: there is no module gone"),
        (("pkg.kern", "--stand-in", "pkg"), "takes the place of pkg.kern itself: nothing of it would be checked"),
        (("pkg", "--stand-in", "pkg._C=pkg._C"), "--stand-in pkg._C=pkg._C: what stands in is replaced itself"),
        (("pkg", "--stand-in", "pkg._C=a,a=pkg._C"), "what stands in is replaced itself"),
        (("pkg", "--env", "A"), "--unset NAME"),
        (("pkg", "--env", "=x"), "is not NAME=VALUE"),
        (("pkg", "--unset", "A=1"), "is no name of a variable"),
        (("pkg", "--env", "A=1", "--unset", "A"), "both --env and --unset: A"),
        (("pkg", "--timeout", "0"), "more than 0 seconds"),
        (("pkg", "--timeout", "nan"), "is no time to wait"),
        (("pkg", "--timeout", "inf"), "is no time to wait"),
        (("pkg", "--timeout", "soon"), "is no number of seconds"),
        (("pkg", "--settle", "-1"), "0 or more seconds"),
        (("pkg", "-j", "0"), "0 is not in the range"),
        (("pkg", "--isolation", "thread"), "'thread' is not one of"),
        (("pkg", "--python", "/no/such/python"), "is not there"),
        (("pkg", "--path", "/no/such/dir"), "does not exist"),
        (("pkg", "--path", __file__), "is a file, not a directory"),
        (("pkg", "--report", "jsn:x"), "did you mean json"),
        (("pkg", "--report", "json"), "names no file"),
        (("pkg", "--report", "json:"), "names no file"),
        (("pkg", "--report", "json:/no/such/dir/x"), "there is no directory '/no/such/dir'"),
        (("pkg", "--report", "json:a\0b"), "cannot write to"),
        (("pkg", "--report", "json:-", "--report", "junit:-"), "two reports to -"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_would_do(masquerade, stage, words, says) -> None:
    done = masquerade("scan", *words)
    assert done.exit_code == 2, done.output
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    assert stage.checks == [], "nothing runs before the options are right"


def test_a_directory_as_interpreter_gets_the_path_in_it(masquerade, tmp_path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    done = masquerade("scan", "pkg", "--python", str(tmp_path))
    assert done.exit_code == 2
    assert str(tmp_path / "bin/python") in "".join(done.stderr.split("\n"))


def test_a_file_that_cannot_be_executed_is_no_interpreter(masquerade, tmp_path) -> None:
    (tmp_path / "python").write_text("")
    done = masquerade("scan", "pkg", "--python", str(tmp_path / "python"))
    assert done.exit_code == 2
    assert "cannot be executed" in done.stderr


def test_a_machine_file_with_errors_is_wrong_configuration(masquerade, tmp_path, monkeypatch) -> None:
    (tmp_path / "mine.toml").write_text("summary = 3\n")
    monkeypatch.setenv("MASQUERADE_MACHINES", str(tmp_path))
    done = masquerade("machines")
    assert done.exit_code == 2
    assert "mine.toml:1" in done.stderr
    assert "Traceback" not in done.output


def test_a_fault_of_ours_ends_with_3_and_asks_for_a_report(masquerade, stage) -> None:
    stage.stop_after, stage.stop_with = 1, ZeroDivisionError("oops")
    done = masquerade("scan", "pkg")
    assert done.exit_code == 3
    assert "This is a fault of masquerade" in done.stderr


def test_a_reader_that_leaves_is_no_fault_of_ours(tmp_path) -> None:
    import subprocess

    command = f"{sys.executable} -m masquerade machines | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, env=os.environ)
    assert "Traceback" not in done.stderr
