"""The host around the devices, as os, open, pathlib, glob and platform show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from masquerade.fakes.paths import Paths

INSTALL = "from masquerade.fakes import host, paths\n"
ROCM = {
    "host.dev": ["/dev/kfd", "/dev/dri/card0", "/dev/dri/renderD128"],
    "host.paths": ["/opt/rocm", "/opt/rocm/.info/version", "/opt/rocm/bin/hipcc"],
    "host.env": {"ROCM_HOME": "/opt/rocm", "CUDA_HOME": None},
}


def test_environment(child: Any) -> None:
    found = child(
        INSTALL
        + "answer['set'] = host.install(world)\nanswer['now'] = [os.environ.get(n) for n in ('ROCM_HOME', 'CUDA_HOME')]"
        "\nanswer['c'] = os.popen('echo $ROCM_HOME').read().strip()",
        "mi355x",
        ROCM,
        env={"CUDA_HOME": "/usr/local/cuda"},
    )
    assert found == {"set": {"ROCM_HOME": "/opt/rocm", "CUDA_HOME": None}, "now": ["/opt/rocm", None], "c": "/opt/rocm"}


LOOK = (
    INSTALL
    + """
host.install(world)
import glob, io, pathlib, pickle, shutil, stat
kfd = pathlib.Path("/dev/kfd")
answer["exists"] = [os.path.exists(name) for name in ("/dev/kfd", b"/dev/kfd", kfd, "/dev//kfd", "/dev/./kfd")]
rocm = pathlib.Path("/opt/rocm")
answer["pathlib"] = [kfd.exists(), kfd.is_char_device(), pathlib.Path("/dev/dri").is_dir(), rocm.is_dir(),
                     (rocm / "bin/hipcc").is_file(), (rocm / "nothing").exists()]
answer["os"] = [stat.S_ISCHR(os.stat("/dev/kfd").st_mode), stat.S_ISCHR(os.lstat("/dev/kfd").st_mode),
                os.access("/dev/kfd", os.R_OK | os.W_OK), os.access("/opt/rocm/bin/hipcc", os.X_OK),
                os.access("/opt/rocm/bin/hipcc", os.W_OK), os.path.realpath("/dev/kfd")]
answer["render"] = [os.major(os.stat("/dev/dri/renderD128").st_rdev), os.minor(os.stat("/dev/dri/renderD128").st_rdev)]
answer["listdir"] = [os.listdir("/dev/dri"), os.listdir(b"/dev/dri"), sorted(os.listdir("/opt/rocm"))]
answer["listed"] = ["kfd" in os.listdir("/dev"), "null" in os.listdir("/dev"), "rocm" in os.listdir("/opt"),
                    "opt" in os.listdir("/")]
with os.scandir("/dev/dri") as entries:
    answer["scandir"] = sorted([entry.name, entry.path, entry.is_file(), entry.is_dir()] for entry in entries)
answer["scanned"] = {entry.name: entry.is_dir() for entry in os.scandir("/dev") if entry.name in ("dri", "kfd", "null")}
answer["walk"] = sorted(os.path.join(top, name) for top, folders, names in os.walk("/opt/rocm") for name in names)
answer["glob"] = [sorted(glob.glob("/dev/dri/render*")), sorted(map(str, pathlib.Path("/dev/dri").glob("card*"))),
                  glob.glob("/dev/kf[d]"), sorted(map(str, pathlib.Path("/dev/dri").iterdir()))]
version = rocm / ".info/version"
answer["version"] = [open(version).read(), version.read_text(), io.open(str(version), "rb").name,
                     open(str(version), encoding="utf-8").readline()]
descriptor = os.open("/dev/kfd", os.O_RDWR)
answer["node"] = [os.read(descriptor, 4) == b"", open("/dev/kfd", "rb").read() == b""]
os.close(descriptor)
answer["errors"] = [error(open, "/opt/rocm/bin/hipcc"), error(open, "/opt/rocm"), error(os.listdir, "/dev/kfd"),
                    error(open, "/opt/rocm/.info/version", "w"), error(os.stat, "/dev/nothing-here")]
with open(__file__) as own, open(os.open(__file__, os.O_RDONLY)) as same:
    number = own.fileno()
    answer["others"] = [own.readline() == same.readline(), os.path.exists(number), os.stat(number).st_size > 0,
                        os.path.exists("/nonexistent"), os.path.samefile(__file__, __file__)]
answer["sets"] = [os.stat in os.supports_fd, os.scandir in os.supports_fd, os.open in os.supports_dir_fd,
                  os.stat in os.supports_follow_symlinks, pickle.loads(pickle.dumps(os.stat)) is os.stat]
class Holder:
    opened = open
answer["held"] = Holder().opened(__file__).read(6)
"""
)


@pytest.mark.parametrize("before", ["", "import glob, pathlib, shutil\n"], ids=["imported-later", "imported-before"])
def test_nodes_and_paths_exist_in_every_way_of_asking(child: Any, before: str) -> None:
    found = child(before + LOOK, "mi355x", ROCM)
    assert found["exists"] == [True] * 5
    assert found["pathlib"] == [True, True, True, True, True, False]
    assert found["os"] == [True, True, True, True, False, "/dev/kfd"]
    assert found["render"] == [226, 128]
    assert found["listdir"][0] == ["card0", "renderD128"]
    assert found["listdir"][1] == ["b'card0'", "b'renderD128'"]
    assert found["listdir"][2] == [".info", "bin"]
    assert found["listed"] == [True] * 4
    assert found["scandir"] == [
        ["card0", "/dev/dri/card0", False, False],
        ["renderD128", "/dev/dri/renderD128", False, False],
    ]
    assert found["scanned"] == {"dri": True, "kfd": False, "null": False}
    assert found["walk"] == ["/opt/rocm/.info/version", "/opt/rocm/bin/hipcc"]
    assert found["glob"] == [
        ["/dev/dri/renderD128"],
        ["/dev/dri/card0"],
        ["/dev/kfd"],
        ["/dev/dri/card0", "/dev/dri/renderD128"],
    ]
    assert found["version"] == ["7.2.0\n", "7.2.0\n", "/opt/rocm/.info/version", "7.2.0\n"]
    assert found["node"] == [True, True]
    unknown, folder, no_folder, read_only, missing = found["errors"]
    assert unknown.startswith("UnknownValueError: open asked for host.paths (the content of /opt/rocm/bin/hipcc)")
    assert folder == "IsADirectoryError: [Errno 21] Is a directory: '/opt/rocm'"
    assert no_folder.startswith("NotADirectoryError")
    assert read_only.startswith("PermissionError")
    assert missing == "FileNotFoundError: [Errno 2] No such file or directory: '/dev/nothing-here'"
    assert found["others"] == [True, True, True, False, True]
    assert found["sets"] == [True] * 5
    assert found["held"] == "import"


@pytest.fixture
def real_host(tmp_path: Path) -> Path:
    """A host with NVIDIA's nodes and toolkit, and a folder that is nobody's."""
    for name in ("dev/nvidia0", "dev/null", "usr/cuda/bin/nvcc", "usr/lib/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("real")
    return tmp_path


HIDDEN = """
import glob, pathlib
top = {top!r}
paths.DEVICE_NODES = (top + "/dev/nvidia",)
paths.VENDOR_PATHS = {{"cuda": (top + "/usr/cuda",)}}
host.install(world)
names = ("dev/nvidia0", "usr/cuda", "usr/cuda/bin/nvcc", "dev/null", "usr/lib/x")
answer["exists"] = [os.path.exists(os.path.join(top, name)) for name in names]
answer["pathlib"] = [pathlib.Path(top, name).exists() for name in names]
scanned = [entry.name for entry in os.scandir(top + "/usr")]
answer["listed"] = [os.listdir(top + "/dev"), scanned, glob.glob(top + "/dev/*")]
answer["open"] = [error(open, os.path.join(top, name)) for name in names[::2]]
answer["access"] = os.access(top + "/dev/nvidia0", os.F_OK)
answer["opened"] = error(os.open, top + "/dev/nvidia0", os.O_RDONLY)
answer["list"] = error(os.listdir, top + "/usr/cuda/bin")
"""


def test_another_vendors_nodes_and_toolkit_are_hidden(child: Any, real_host: Path) -> None:
    found = child(INSTALL + HIDDEN.format(top=str(real_host)), "mi355x")
    top = str(real_host)
    assert found["exists"] == found["pathlib"] == [False, False, False, True, True]
    assert found["listed"] == [["null"], ["lib"], [top + "/dev/null"]]
    assert [text.partition(":")[0] for text in found["open"]] == ["FileNotFoundError", "FileNotFoundError", "no error"]
    assert found["access"] is False
    assert found["opened"].startswith("FileNotFoundError")
    assert found["list"].startswith("FileNotFoundError")


def test_its_own_vendors_toolkit_stays_as_it_is(child: Any, real_host: Path) -> None:
    found = child(INSTALL + HIDDEN.format(top=str(real_host)), "h100")
    assert found["exists"] == [False, True, True, True, True]


def test_another_vendors_toolkit_that_the_machine_lists_is_there(child: Any, real_host: Path) -> None:
    """Two vendors' cards in one host."""
    found = child(INSTALL + HIDDEN.format(top=str(real_host)), "mi355x", {"host.paths": [f"{real_host}/usr/cuda"]})
    assert found["exists"] == [False, True, True, True, True]


def test_the_nvidia_drivers_files(child: Any) -> None:
    found = child(
        INSTALL
        + """
host.install(world)
answer["version"] = open("/proc/driver/nvidia/version").read()
answer["cards"] = os.listdir("/proc/driver/nvidia/gpus")
answer["card"] = open(f"/proc/driver/nvidia/gpus/{answer['cards'][0]}/information").read()
answer["nodes"] = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
""",
        "h100",
    )
    assert found["version"].startswith("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04")
    assert found["cards"] == ["0000:05:00.0"]
    assert "NVIDIA H100 80GB HBM3" in found["card"]
    assert found["nodes"] == ["nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidiactl"]


def test_the_cards_of_the_real_host_are_not_listed() -> None:
    listed = Paths("cuda", [], ["/proc/driver/nvidia/version", "/proc/driver/nvidia/gpus/0000:05:00.0/information"])
    assert listed.listing("/proc/driver/nvidia/gpus", ["0000:00:06.0"]) == ["0000:05:00.0"]
    assert listed.is_hidden("/proc/driver/nvidia/gpus/0000:00:06.0/information")
    assert not listed.is_hidden("/proc/driver/nvidia/params")
    assert Paths("rocm", [], []).listing("/sys/class/kfd/kfd/topology/nodes", ["0", "1"]) == []


def test_cpuinfo_is_the_machines(child: Any) -> None:
    found = child(
        INSTALL
        + """
host.install(world)
import pathlib
text = open("/proc/cpuinfo").read()
answer["text"] = text[:400]
answer["same"] = pathlib.Path("/proc/cpuinfo").read_bytes().decode() == text
descriptor = os.open("/proc/cpuinfo", os.O_RDONLY)
answer["os"] = os.read(descriptor, 9).decode()
answer["write"] = error(open, "/proc/cpuinfo", "a")
answer["cpus"] = os.cpu_count() == len(os.sched_getaffinity(0)) or os.cpu_count() < 72
""",
        "gb300",
    )
    assert "CPU part\t: 0xd4f" in found["text"]
    assert found["same"] is True
    assert found["os"] == "processor"
    assert found["write"].startswith("PermissionError")
    assert found["cpus"] is True


def test_unknown_flags_are_asked_for_by_name(child: Any) -> None:
    found = child(
        INSTALL + "host.install(world)\nanswer['error'] = error(open, '/proc/cpuinfo')",
        changes={"host.cpu.flags": "unknown"},
    )
    assert found["error"].startswith("UnknownValueError: open('/proc/cpuinfo') asked for host.cpu.flags")


def test_a_machine_that_says_nothing_of_its_cpu_leaves_the_hosts(child: Any) -> None:
    changes = {
        "host.machine": "unknown",
        "host.cpu": {key: "unknown" for key in ("vendor_id", "model_name", "flags", "implementer", "part", "cores")},
    }
    found = child(
        "real = open('/proc/cpuinfo').read().split('flags')[0].split('MHz')[0]\n" + INSTALL + "host.install(world)\n"
        "answer['same'] = open('/proc/cpuinfo').read().startswith(real)",
        changes=changes,
    )
    assert found == {"same": True}


@pytest.mark.parametrize(
    ("machine", "system", "processor"),
    [
        ("aarch64", "Linux", "aarch64"),
        ("arm64", "Darwin", "arm"),
        ("riscv64", "Linux", "riscv64"),
        ("s390x", "Linux", "s390x"),
    ],
)
def test_uname_and_platform(child: Any, machine: str, system: str, processor: str) -> None:
    found = child(
        "import platform\nplatform.machine(), platform.platform()\n"
        + INSTALL
        + """
seen = []
sys.addaudithook(lambda event, arguments: event == "subprocess.Popen" and seen.append(arguments[0]))
host.install(world)
import sysconfig
answer["os"] = [os.uname().machine, os.uname().sysname, os.uname()[4], len(os.uname())]
answer["platform"] = [platform.machine(), platform.system(), platform.processor(), platform.uname().machine]
answer["node"] = platform.node() == os.uname().nodename
answer["ran"] = seen
""",
        changes={"host.machine": machine, "host.system": system},
    )
    assert found["os"] == [machine, system, machine, 5]
    assert found["platform"] == [machine, system, processor, machine]
    assert found["node"] is True
    assert found["ran"] == []


def test_macos_has_no_cpuinfo(child: Any) -> None:
    found = child(
        INSTALL + "host.install(world)\nanswer['exists'] = os.path.exists('/proc/cpuinfo')\n"
        "answer['open'] = error(open, '/proc/cpuinfo')",
        changes={"host.machine": "arm64", "host.system": "Darwin"},
    )
    assert found["exists"] is False
    assert found["open"].startswith("FileNotFoundError")
