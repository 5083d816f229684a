"""ensure_lazy: an import that stays lazy passes; one that does not is told with its line and the way that led there."""

from __future__ import annotations

import importlib.util
import runpy
import textwrap
from pathlib import Path

import pytest

from masquerade.contracts import ConfigurationError
from masquerade.testing import close, ensure_lazy, explain, shared_stage


@pytest.fixture(scope="module", autouse=True)
def stages():
    yield
    close()


@pytest.fixture
def package(tmp_path: Path):
    """Write the files of `pkg` and of modules beside it."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            file = tmp_path / (name.replace("__", "/") + ".py" if name != "pkg" else "pkg/__init__.py")
            file.parent.mkdir(exist_ok=True)
            file.write_text(textwrap.dedent(text))
        return tmp_path

    return write


def test_a_lazy_import_passes_and_gives_its_record(package) -> None:
    path = package(pkg="def later():\n    import heavy\n", heavy="")
    assert ensure_lazy("pkg", machine="mi355x", forbidden=("heavy",), path=[path]).verdict == "ok"


def test_an_eager_import_is_told_with_line_and_way(package) -> None:
    path = package(pkg="\nfrom pkg import kern\n", pkg__kern="\n\nimport heavy.core\n", heavy="")
    (path / "heavy.py").unlink()
    (path / "heavy").mkdir()
    (path / "heavy" / "__init__.py").write_text("")
    (path / "heavy" / "core.py").write_text("")
    with pytest.raises(AssertionError) as error:
        ensure_lazy("pkg", machine="mi355x", forbidden=("heavy",), path=[path])
    assert str(error.value).splitlines()[0] == "importing pkg on mi355x executes heavy"
    assert "heavy was executed, which is forbidden here" in str(error.value)
    rows = [row.strip() for row in str(error.value).splitlines()]
    assert rows[rows.index("pkg/kern.py:3") + 1] == "| import heavy.core"
    assert "pkg/__init__.py:2  | from pkg import kern" in rows[rows.index("by way of") :]


def test_a_module_that_another_platform_owns_is_forbidden_without_being_named(package) -> None:
    path = package(pkg="import vendor", vendor="")
    owners = {"rocm": ("vendor",)}
    ensure_lazy("pkg", machine="mi355x", owners=owners, path=[path])
    with pytest.raises(AssertionError, match="importing pkg on b580 executes vendor"):
        ensure_lazy("pkg", machine="b580", owners=owners, path=[path])


def test_what_a_test_forbids_is_forbidden_to_its_owner_too(package) -> None:
    path = package(pkg="import vendor", vendor="")
    with pytest.raises(AssertionError, match="executes vendor"):
        ensure_lazy("pkg", machine="mi355x", forbidden=("vendor",), owners={"rocm": ("vendor",)}, path=[path])


def test_a_swallowed_import_counts(package) -> None:
    path = package(pkg="try:\n    import heavy\nexcept ImportError:\n    pass\n", heavy="raise ImportError('no')")
    with pytest.raises(AssertionError, match="executes heavy"):
        ensure_lazy("pkg", forbidden=("heavy",), path=[path])


def test_an_import_that_fails_does_not_pass(package) -> None:
    path = package(pkg="import no_such_module")
    with pytest.raises(AssertionError, match=r"(?s)importing pkg on .* fails.*no_such_module.*pkg/__init__.py:1"):
        ensure_lazy("pkg", forbidden=("heavy",), path=[path])


def test_an_import_that_ends_the_process_does_not_pass(package) -> None:
    path = package(pkg="import os; os._exit(0)")
    with pytest.raises(AssertionError, match=r"importing pkg on .* fails"):
        ensure_lazy("pkg", path=[path])


def test_torch_may_be_forbidden(package) -> None:
    path = package(pkg="import torch", lazy="def f():\n    import torch\n")
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    ensure_lazy("lazy", machine="h100", forbidden=("torch",), path=[path])
    with pytest.raises(AssertionError, match="importing pkg on h100 executes torch"):
        ensure_lazy("pkg", machine="h100", forbidden=("torch",), path=[path], timeout=300)


def test_the_standard_library_cannot_be_forbidden(package) -> None:
    with pytest.raises(ValueError, match="forbidden='json'"):
        ensure_lazy("pkg", forbidden=("json",), path=[package(pkg="")])


def test_explain_tells_line_way_and_last_words(package) -> None:
    path = package(pkg="from pkg import a", pkg__a="print('so far')\nraise KeyError('\\x1b[31mred')")
    told = explain(shared_stage().run("pkg", on="h100", path=[path]))
    assert told.splitlines()[0] == "pkg on h100: import-error"
    assert "pkg/a.py:2" in told and "  so far" in told.splitlines()
    assert "\x1b" not in told


def test_a_name_that_its_package_lacks_is_refused(package) -> None:
    path = package(pkg="", pkg__rocm="")
    given = {"forbidden='pkg.rcm'": {"forbidden": ("pkg.rcm",)}, "owners['rocm']": {"owners": {"rocm": ("pkg.rcm",)}}}
    for spoken, words in given.items():
        with pytest.raises(ValueError) as error:
            ensure_lazy("pkg", path=[path], **words)
        assert str(error.value).startswith(f"{spoken}: there is no module pkg.rcm; did you mean pkg.rocm?")
    ensure_lazy("pkg", path=[path], forbidden=("pkg.rocm", "ghost.ops"))
    ensure_lazy("pkg", path=[path], forbidden=("pkg._C",), stand_ins={"pkg._C": ""})


def test_the_owners_of_the_configuration_count_where_none_are_named(package) -> None:
    path = package(
        pkg="import pkg.rocm",
        pkg__rocm="",
        caller="from masquerade.testing import ensure_lazy\ndef call(**words): ensure_lazy('pkg', 'b580', **words)\n",
    )
    call = runpy.run_path(str(path / "caller.py"))["call"]
    call(path=[path])
    (path / "masquerade.toml").write_text("[owners]\nrocm = ['pkg.rocm']\n")
    with pytest.raises(AssertionError, match=r"executes pkg\.rocm"):
        call(path=[path])
    call(path=[path], owners={})
    ensure_lazy("pkg", "b580", path=[path])  # this file lies in another project
    (path / "masquerade.toml").write_text("[owners]\nrocm = ['pkg.rcm']\n")
    with pytest.raises(ConfigurationError, match=r"masquerade.toml:2: owners.rocm\[0\]: there is no module pkg.rcm"):
        call(path=[path])


def test_a_forbidden_package_that_is_not_installed_is_seen_behind_a_caught_error(package) -> None:
    guarded = "try:\n    import aiter.ops\nexcept ImportError:\n    pass\n"
    path = package(pkg=guarded, pkg__lazy="def later():\n    import aiter\n")
    with pytest.raises(AssertionError, match=r"importing pkg on b580 executes aiter"):
        ensure_lazy("pkg", "b580", forbidden=("aiter",), path=[path])
    ensure_lazy("pkg", "b580", forbidden=("aiter",), path=[path], absent=("aiter",))
    ensure_lazy("pkg", "b580", path=[path])
    ensure_lazy("pkg", "here", forbidden=("aiter",), path=[path])
    (path / "pkg/__init__.py").write_text("")
    ensure_lazy("pkg.lazy", "b580", forbidden=("aiter",), path=[path])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_device_that_is_touched_is_not_lazy(package) -> None:
    path = package(pkg="import torch\nCAP = torch.cuda.get_device_capability()\n")
    with pytest.raises(AssertionError, match=r"importing pkg on mi355x touches a device"):
        ensure_lazy("pkg", "mi355x", path=[path])


def test_an_option_that_there_is_none_of_is_named(package) -> None:
    with pytest.raises(TypeError, match=r"ensure_lazy\(\) has no option 'forbiden'; did you mean forbidden\?"):
        ensure_lazy("pkg", forbiden=("aiter",), path=[package(pkg="")])
