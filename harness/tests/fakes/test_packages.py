"""Vendor packages that a machine has or lacks: stand-ins that run, metadata, and installed packages left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

PRESENT = {
    "vendorlib": {"version": "1.2.3", "distribution": "amd-vendorlib", "on_import": None},
    "nover": {"version": "unknown", "distribution": "nover", "on_import": None},
}
CHANGES = {"packages.present": PRESENT, "packages.absent": ["leftout"]}
INSTALL = "from masquerade.fakes import packages\npackages.install(world)\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment in which `leftout` and `real` are installed."""
    folder = tmp_path / "site"
    for name, version in (("leftout", "5.0"), ("real", "9.9")):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
        info = folder / f"py_{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: py-{name}\nVersion: {version}\n")
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n")
    (info / "top_level.txt").write_text("real\n")  # Python 3.10 looks nowhere else
    return folder


def test_a_stand_in_is_found_imported_and_asked(child: Any) -> None:
    found = child(
        INSTALL
        + """
import importlib.util
spec = importlib.util.find_spec("vendorlib")
answer["found"] = [spec.name, "vendorlib" in sys.modules, spec.loader.is_package("vendorlib")]
import vendorlib, vendorlib.ops.gemm
from vendorlib.kernels.fast import run
answer["version"] = vendorlib.__version__
answer["path"] = len(vendorlib.__path__)
answer["below"] = vendorlib.ops.gemm.__name__
answer["same"] = vendorlib.name is vendorlib.name
answer["dunder"] = error(lambda: vendorlib.__wrapped__)
answer["call"] = error(run, 1)
answer["class"] = [isinstance(1, vendorlib.Thing), issubclass(int, vendorlib.Thing)]
class Derived(vendorlib.Base): pass
answer["hint"] = repr(vendorlib.T | None)
answer["missing"] = error(__import__, "vendorlib2")
""",
        "mi355x",
        CHANGES,
    )
    assert found["found"] == ["vendorlib", False, True]
    assert found["version"] == "1.2.3"
    assert found["path"] == 1
    assert found["below"] == "vendorlib.ops.gemm"
    assert found["same"] is True
    assert found["dunder"].startswith("AttributeError")
    assert found["call"].startswith("NoAnswerError: vendorlib.kernels.fast.run was called on machine mi355x")
    assert "stand-in of vendorlib" in found["call"]
    assert found["class"] == [False, False]
    assert found["missing"] == "ModuleNotFoundError: No module named 'vendorlib2'"


def test_the_code_of_a_stand_in_is_executed_under_a_name_that_tells_the_module(child: Any) -> None:
    found = child(
        """
seen = []
def hook(event, arguments):
    if event == "exec":
        frame, owner = sys._getframe(1), None
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            owner = owner or getattr(frame.f_locals.get("module"), "__spec__", None)
            frame = frame.f_back
        seen.append([arguments[0].co_filename, owner and owner.name, owner and owner.origin])
sys.addaudithook(hook)
"""
        + INSTALL
        + """
import importlib.util
seen.clear()
importlib.util.find_spec("vendorlib")
answer["searched"] = list(seen)
import vendorlib.ops
answer["imported"] = [row for row in seen if row[0].startswith("<masquerade")]
""",
        "mi355x",
        CHANGES,
    )
    assert found["searched"] == []
    first, second = "<masquerade stand-in>/vendorlib/__init__.py", "<masquerade stand-in>/vendorlib/ops/__init__.py"
    assert found["imported"] == [[first, "vendorlib", first], [second, "vendorlib.ops", second]]


TORCH = """\
import sys
class _C:
    @staticmethod
    def _cuda_getDeviceCount(): note("_cuda_getDeviceCount")
class _Device:
    def __init__(self, name): self.name = name
    def current_device(self): note(f"{self.name}.current_device")
cuda, xpu = _Device("cuda"), _Device("xpu")
touched = []
def note(probe):
    frame = sys._getframe()
    while frame and not frame.f_code.co_filename.startswith("<masquerade"):
        frame = frame.f_back
    touched.append([probe, frame.f_code.co_filename])
"""


@pytest.mark.parametrize(
    ("machine", "on_import", "probe"),
    [
        ("mi355x", "device-init", "cuda.current_device"),
        ("b580", "device-init", "xpu.current_device"),
        ("h100", "fork-poison", "_cuda_getDeviceCount"),
        ("h100", "clean", None),
        ("h100", None, None),
    ],
)
def test_executing_a_stand_in_touches_the_device_as_the_package_does(
    child: Any, tmp_path: Path, machine: str, on_import: str | None, probe: str | None
) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    changes = {"packages.present": {"vendorlib": {"version": "1", "on_import": on_import}}}
    found = child(
        INSTALL
        + """
import importlib.util, torch
importlib.util.find_spec("vendorlib")
answer["searched"] = list(torch.touched)
import vendorlib.ops
answer["imported"] = torch.touched
""",
        machine,
        changes,
        path=[tmp_path],
    )
    assert found["searched"] == []
    assert found["imported"] == ([] if probe is None else [[probe, "<masquerade stand-in>/vendorlib/__init__.py"]])


def test_executing_a_stand_in_asks_the_management_library_as_the_package_does(child: Any) -> None:
    changes = {"packages.present": {"vendorlib": {"version": "1", "on_import": "queried"}}}
    found = child(
        INSTALL + "from masquerade.fakes import amdsmi as fake\nfake.install(world)\nimport amdsmi\n"
        "answer['before'] = error(amdsmi.amdsmi_get_processor_handles).partition(':')[0]\nimport vendorlib\n"
        "answer['after'] = len(amdsmi.amdsmi_get_processor_handles())",
        "mi355x",
        changes,
    )
    assert found == {"before": "AmdSmiLibraryException", "after": 1}


def test_a_stand_in_that_would_open_the_device_does_without_torch(child: Any) -> None:
    changes = {"packages.present": {"vendorlib": {"version": "1", "on_import": "device-init"}}}
    found = child(
        INSTALL + "sys.modules['torch'] = None\nimport vendorlib\nanswer['v'] = vendorlib.__version__",
        "mi355x",
        changes,
    )
    assert found == {"v": "1"}


METADATA = (
    INSTALL
    + """
import importlib.metadata as metadata
answer["present"] = [metadata.version("amd-vendorlib"), metadata.distribution("AMD_vendorlib").metadata["Name"]]
answer["absent"] = [error(metadata.version, name) for name in ("py-leftout", "leftout")]
answer["real"] = metadata.version("py-real")
top = metadata.packages_distributions()
answer["top"] = [top.get("vendorlib"), top.get("leftout"), top.get("real")]
names = {dist.metadata["Name"] for dist in metadata.distributions()}
answer["listed"] = [name in names for name in ("amd-vendorlib", "py-leftout", "py-real")]
answer["elsewhere"] = [dist.metadata["Name"] for dist in metadata.distributions(path=["/nowhere"])]
"""
)


def test_metadata_answers_for_present_packages_and_denies_absent_ones(child: Any, site: Path) -> None:
    found = child(METADATA, "mi355x", CHANGES, path=[site])
    missing = "PackageNotFoundError: No package metadata was found for "
    assert found == {
        "present": ["1.2.3", "amd-vendorlib"],
        "absent": [missing + "py-leftout", missing + "leftout"],
        "real": "9.9",
        "top": [["amd-vendorlib"], None, ["py-real"]],
        "listed": [True, False, True],
        "elsewhere": [],
    }


def test_the_backport_of_metadata_is_answered_too(child: Any, site: Path, tmp_path: Path) -> None:
    """importlib_metadata takes the standard finder away and brings its own: here one that does as much."""
    (tmp_path / "importlib_metadata.py").write_text(
        "import sys\n"
        "from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder as _Theirs, version\n"
        "from importlib.machinery import PathFinder\n"
        "class MetadataPathFinder(DistributionFinder):\n"
        "    def find_spec(self, *args): return None\n"
        "    def find_distributions(self, context=DistributionFinder.Context()):\n"
        "        return _Theirs.find_distributions(context)\n"
        "del PathFinder.find_distributions\n"
        "sys.meta_path.append(MetadataPathFinder())\n"
    )
    asked = METADATA.removeprefix(INSTALL)
    for code in (INSTALL + "import importlib_metadata\n", "import importlib_metadata\n" + INSTALL):
        found = child(code + asked, "mi355x", CHANGES, path=[site, tmp_path])
        assert found["present"] == ["1.2.3", "amd-vendorlib"]
        assert found["listed"] == [True, False, True]


def test_an_unknown_version_stays_unknown(child: Any) -> None:
    found = child(
        INSTALL
        + """
import importlib.metadata, nover
answer["attribute"] = error(lambda: nover.__version__)
answer["metadata"] = error(importlib.metadata.version, "nover")
""",
        "mi355x",
        CHANGES,
    )
    for text in found.values():
        assert text.startswith("UnknownValueError")
        assert "packages.present.nover.version" in text


def test_a_package_that_is_installed_is_left_alone(child: Any, site: Path) -> None:
    changes = {"packages.present": {"real": {"version": "0.0.1", "distribution": "py-real"}}}
    found = child(
        INSTALL
        + "import importlib.metadata, real\nanswer['v'] = [real.__version__, importlib.metadata.version('py-real')]",
        "mi355x",
        changes,
        path=[site],
    )
    assert found == {"v": ["9.9", "9.9"]}


def test_a_folder_of_the_packages_name_does_not_stand_in_for_it(child: Any, tmp_path: Path) -> None:
    (tmp_path / "vendorlib").mkdir()
    found = child(INSTALL + "import vendorlib\nanswer['v'] = vendorlib.__version__", "mi355x", CHANGES, path=[tmp_path])
    assert found == {"v": "1.2.3"}


def test_pkgutil_lists_what_the_machine_has(child: Any, site: Path) -> None:
    found = child(
        INSTALL
        + """
import pkgutil
names = [info.name for info in pkgutil.iter_modules()]
answer["listed"] = [name in names for name in ("vendorlib", "leftout", "real")]
answer["prefixed"] = "x.vendorlib" in [info.name for info in pkgutil.iter_modules(None, "x.")]
""",
        "mi355x",
        CHANGES,
        path=[site],
    )
    assert found == {"listed": [True, False, True], "prefixed": True}


def test_a_stand_in_shows_its_source(child: Any) -> None:
    found = child(
        INSTALL
        + """
import inspect, vendorlib
answer["source"] = inspect.getsource(vendorlib)
answer["same"] = vendorlib.__spec__.loader.get_source("vendorlib") == answer["source"]
""",
        "mi355x",
        CHANGES,
    )
    assert "stand-in of vendorlib" in found["source"]
    assert found["same"] is True
