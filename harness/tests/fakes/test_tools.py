"""The machine's command-line tools: real programs that answer in the real tools' formats."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from masquerade import machines
from masquerade.fakes import tools
from masquerade.fakes.world import World

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path, machine: Any) -> Run:
    """Run a command line on a machine, with the machine's PATH."""

    def start(
        name: str, command: str, changes: dict[str, Any] | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        described = machine(name, changes)
        folder = str(tmp_path / "tools")
        shutil.rmtree(folder, ignore_errors=True)
        tools.build(folder, described, sys.executable)
        path = tools.masked_path(os.environ["PATH"], folder, described)
        environ = {**os.environ, "PATH": path, **(env or {})}
        return subprocess.run(command, shell=True, env=environ, capture_output=True, text=True, timeout=60, check=False)

    return start


def query(run: Run, machine: str, fields: str, form: str = "csv", **more: Any) -> list[list[str]]:
    done = run(machine, f"nvidia-smi --query-gpu={fields} --format={form}", **more)
    assert done.returncode == 0, done.stderr
    return [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(done.stdout))]


def test_nvidia_smi_queries(run: Run) -> None:
    rows = query(run, "h100x2", "index,name,memory.total,compute_cap,driver_version,pci.bus_id,power.limit,fan.speed")
    head = [
        "index",
        "name",
        "memory.total [MiB]",
        "compute_cap",
        "driver_version",
        "pci.bus_id",
        "power.limit [W]",
        "fan.speed",
    ]
    assert rows[0] == head
    assert rows[2] == [
        "1",
        "NVIDIA H100 80GB HBM3",
        "81089 MiB",
        "9.0",
        "580.159.04",
        "00000000:07:00.0",
        "700.00 W",
        "[N/A]",
    ]


def test_nvidia_smi_without_header_and_units_and_of_one_card(run: Run) -> None:
    assert (
        query(run, "h100x2", "gpu_name,memory.total", "csv,noheader,nounits")
        == [["NVIDIA H100 80GB HBM3", "81089"]] * 2
    )
    for chosen in ("1", "00000000:07:00.0", "07:00.0"):
        done = run("h100x2", f"nvidia-smi -i {chosen} --query-gpu=index --format=csv,noheader")
        assert done.stdout == "1\n"


def test_nvidia_smi_heads_its_columns_with_full_names_and_writes_csv_unasked(run: Run) -> None:
    """As recorded on an H200 (fixtures/recordings)."""
    shown = run("h200", "nvidia-smi --query-gpu=gpu_name,clocks.max.mem,clocks.sm").stdout
    assert shown == "name, clocks.max.memory [MHz], clocks.current.sm [MHz]\nNVIDIA H200, 3201 MHz, 1980 MHz\n"


def test_nvidia_smi_sees_all_cards_whatever_is_visible(run: Run) -> None:
    done = run("h100x2", "nvidia-smi -L", env={"CUDA_VISIBLE_DEVICES": "0"})
    assert re.fullmatch(r"(GPU \d: NVIDIA H100 80GB HBM3 \(UUID: GPU-[0-9a-f-]{36}\)\n){2}", done.stdout)


def test_unknown_values_are_not_available(run: Run) -> None:
    rows = query(
        run, "h100", "memory.total,clocks.max.mem", "csv,noheader", changes={"devices.0.total_memory": "unknown"}
    )
    assert rows[0][0] == "[N/A]"
    done = run("h100", "nvidia-smi", {"devices.0.total_memory": "unknown", "devices.0.power_limit": "unknown"})
    assert "0MiB /       N/A |" in done.stdout


def test_the_table_of_nvidia_smi(run: Run) -> None:
    lines = run("h100x2", "nvidia-smi").stdout.splitlines()
    assert {len(line) for line in lines[1:]} == {91}
    assert "Driver Version: 580.159.04" in lines[2]
    assert re.search(r"CUDA Version: (\d+\.\d+) ", lines[2])
    rows = [line for line in lines if "NVIDIA H100 80GB HBM3" in line]
    assert [re.match(r"\|\s+(\d+)\s+NVIDIA", row).group(1) for row in rows] == ["0", "1"]  # type: ignore[union-attr]
    usage = next(line for line in lines if "MiB /" in line)
    assert usage == "| N/A   30C    P0             50W /  700W |       0MiB /  81089MiB |      0%      Default |"


def test_a_long_name_is_cut_as_the_tool_does(run: Run) -> None:
    done = run("h100", "nvidia-smi", {"devices.0.name": "NVIDIA RTX PRO 6000 Blackwell Server Edition"})
    assert "| NVIDIA RTX PRO 6000 Blac...    Off |" in done.stdout.replace("|   0 ", "|")


def test_nvidia_smi_q_and_version(run: Run) -> None:
    text = run("h100", "nvidia-smi -q").stdout
    assert re.search(r"^    Product Name +: NVIDIA H100 80GB HBM3$", text, re.MULTILINE)
    assert re.search(r"^Attached GPUs +: 1$", text, re.MULTILINE)
    assert re.search(r"^        Total +: 81089 MiB$", text, re.MULTILINE)
    assert "DRIVER version      : 580.159.04" in run("h100", "nvidia-smi --version").stdout


def test_nvidia_smi_topology(run: Run) -> None:
    done = run("h100x2", "nvidia-smi topo -m")
    assert done.returncode == 1
    assert "interconnect" in done.stderr
    rows = run("h100x2", "nvidia-smi topo -m", {"interconnect": "NV18"}).stdout.splitlines()
    assert rows[1].split("\t")[:3] == ["GPU0", " X ", "NV18"]
    assert rows[2].split("\t")[:3] == ["GPU1", "NV18", " X "]


@pytest.mark.parametrize(
    ("command", "said", "status"),
    [
        ("nvidia-smi --query-gpu=cuda_version --format=csv", 'Field "cuda_version" is not a valid field to query.', 2),
        ("nvidia-smi --query-gpu=name --format=noheader", '"--format=" switch is missing', 2),
        ("nvidia-smi -i 7", "No devices were found", 6),
        ("nvidia-smi nonsense", "Invalid combination of input arguments", 2),
    ],
)
def test_wrong_arguments(run: Run, command: str, said: str, status: int) -> None:
    done = run("h100", command)
    assert said in done.stdout
    assert done.returncode == status


@pytest.mark.parametrize(
    ("state", "message", "said", "status"),
    [
        ("failing", "Driver Not Loaded", "couldn't communicate with the NVIDIA driver", 9),
        (
            "failing",
            "Driver/library version mismatch",
            "Failed to initialize NVML: Driver/library version mismatch",
            18,
        ),
        ("failing", "NVML Shared Library Not Found", "couldn't find libnvidia-ml.so library", 12),
        ("failing", "Unknown Error", "Failed to initialize NVML: Unknown Error", 255),
        ("absent", "", "couldn't find libnvidia-ml.so library", 12),
    ],
)
def test_nvidia_smi_on_a_faulty_machine(run: Run, state: str, message: str, said: str, status: int) -> None:
    changes = {"management.nvml": state, "fault": {"kind": "broken", "management_error": message}}
    done = run("h100", "nvidia-smi", changes)
    assert said in done.stdout
    assert done.returncode == status


def test_rocm_smi(run: Run) -> None:
    card = json.loads(run("mi355x", "rocm-smi --showproductname --showmeminfo vram --json").stdout)["card0"]
    assert card["Card Series"] == "AMD Instinct MI355X"
    assert card["GFX Version"] == "gfx950"
    assert card["VRAM Total Memory (B)"] == "309220868096"
    assert card["Card SKU"] == "N/A"
    text = run("mi355x", "rocm-smi --showproductname").stdout
    assert "GPU[0]\t\t: Card Series: \t\tAMD Instinct MI355X\n" in text
    assert " End of ROCm SMI Log " in text
    assert "GPU[0]\t\t: Device ID: \t\t0x75a3\n" in run("mi355x", "rocm-smi -i").stdout
    head, row, *_ = run("mi355x", "rocm-smi --showid --csv").stdout.splitlines()
    assert dict(zip(head.split(","), row.split(","), strict=True))["Device ID"] == "0x75a3"


def test_the_concise_table_of_rocm_smi(run: Run) -> None:
    lines = run("mi355xx2", "rocm-smi").stdout.splitlines()
    head = next(line for line in lines if line.startswith("Device"))
    rows = [line for line in lines if re.match(r"\d ", line)]
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert rows[0][head.index("PwrCap") :].startswith("1400.0W")
    assert run("mi355x", "rocm-smi --json").returncode == 1


def test_rocminfo(run: Run) -> None:
    text = run("mi355xx2", "rocminfo").stdout
    # As vLLM's and torch's build scripts search it.
    assert re.findall(r"^\s+Name:\s+(gfx\w+)", text, re.MULTILINE) == ["gfx950", "gfx950"]
    assert re.findall(r"Name: +(amdgcn-amd-amdhsa--\S+)", text) == ["amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-"] * 2
    assert "  Marketing Name:          AMD Instinct MI355X" in text
    assert "  Compute Unit:            256" in text
    assert "  Wavefront Size:          64(0x40)" in text
    assert "      Size:                    160(0xa0) KB" in text


def test_rocr_hides_devices_from_rocminfo_and_hip_does_not(run: Run) -> None:
    for env, count in (
        ({"ROCR_VISIBLE_DEVICES": "1"}, 1),
        ({"HIP_VISIBLE_DEVICES": "1"}, 2),
        ({"ROCR_VISIBLE_DEVICES": ""}, 0),
    ):
        done = run("mi355xx2", "rocm_agent_enumerator", env=env)
        assert done.stdout.split() == ["gfx000"] + ["gfx950"] * count


def test_rocm_agent_enumerator_gives_full_names(run: Run) -> None:
    assert run("mi355x", "rocm_agent_enumerator -name").stdout == "gfx950:sramecc+:xnack-\n"


def test_rocm_tools_without_the_driver(run: Run) -> None:
    changes = {
        "host.dev": [],
        "management.amdsmi": "failing",
        "fault": {"kind": "no-kfd", "management_error": "Driver not loaded"},
    }
    assert "Driver not initialized" in run("mi300x", "rocm-smi", changes).stdout
    done = run("mi300x", "rocminfo", changes)
    assert "ROCk module is loaded" in done.stdout
    assert "Unable to open /dev/kfd" in done.stdout
    assert done.returncode != 0
    assert run("mi300x", "amd-smi list", changes).returncode == 255
    absent = run("mi300x", "amd-smi list", {"management.amdsmi": "absent"})
    assert (absent.returncode, "AMD SMI, is absent" in absent.stderr) == (1, True)
    assert run("mi300x", "rocm_agent_enumerator", changes).stdout == "gfx000\n"


def test_rocminfo_where_the_module_is_not_loaded(run: Run) -> None:
    done = run("mi300x", "rocminfo", {"host.dev": [], "host.paths": []})
    assert "ROCk module is NOT loaded, possibly no GPU devices" in done.stdout
    assert done.returncode != 0


def test_amd_smi(run: Run) -> None:
    (row,) = json.loads(run("mi355x", "amd-smi list --json").stdout)
    assert (row["gpu"], row["bdf"]) == (0, "0000:05:00.0")
    (card,) = json.loads(run("mi355x", "amd-smi static --json").stdout)["gpu_data"]
    assert card["asic"]["target_graphics_version"] == "gfx950"
    assert card["asic"]["num_compute_units"] == 256
    assert card["vram"]["size"] == {"value": 294896, "unit": "MB"}
    assert "    BDF: 0000:05:00.0\n" in run("mi355x", "amd-smi list").stdout
    assert "        TARGET_GRAPHICS_VERSION: gfx950\n" in run("mi355x", "amd-smi static -g 0").stdout


def test_xpu_smi_and_sycl_ls(run: Run) -> None:
    (card,) = json.loads(run("b580", "xpu-smi discovery -j").stdout)["device_list"]
    assert card["device_name"] == "Intel(R) Arc(TM) B580 Graphics"
    assert (card["pci_device_id"], card["drm_device"]) == ("0xe20b", "/dev/dri/card0")
    text = run("b580", "xpu-smi discovery").stdout
    assert {len(line) for line in text.splitlines()} == {100}
    assert "| 0         | Device Name: Intel(R) Arc(TM) B580 Graphics" in text
    assert run("b580", "sycl-ls").stdout.startswith("[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime")
    assert run("b580", "sycl-ls", env={"ONEAPI_DEVICE_SELECTOR": "opencl:*"}).stdout == ""


def test_compilers_tell_the_machines_versions(run: Run) -> None:
    # As torch.utils.cpp_extension and torch.utils.collect_env search them.
    assert re.search(r"release (\d+[.]\d+)", run("h100", "nvcc --version").stdout).group(1) == "13.0"  # type: ignore[union-attr]
    assert run("h100", "ptxas --version").stdout.startswith("ptxas: NVIDIA (R) Ptx optimizing assembler")
    assert "HIP version: 7.2.26015" in run("mi355x", "hipcc --version").stdout


def test_a_compiler_does_its_work_where_the_host_has_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "nvcc").write_text("#!/bin/sh\necho compiled $1\n")
    (real / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}/bin")
    none = run("h100", "nvcc x.cu")
    assert none.returncode == 1
    assert "nvcc" in none.stderr
    monkeypatch.setenv("PATH", f"{real}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert run("h100", "nvcc x.cu").stdout == "compiled x.cu\n"


@pytest.fixture
def host_path(tmp_path: Path) -> list[str]:
    """PATH of a host that has NVIDIA's tools: among other programs, in a virtual environment, and a folder without."""
    programs, environment, plain = (tmp_path / name for name in ("usr/bin", "venv/bin", "plain/bin"))
    for folder, names in ((programs, ("nvidia-smi", "nvcc", "grep")), (environment, ("nvcc",)), (plain, ("sed",))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text(f"#!/bin/sh\necho real {name}\n")
            (folder / name).chmod(0o755)
    (environment / "python").symlink_to(sys.executable)
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix, 'bin')}\n")
    (tmp_path / "venv" / "lib").mkdir()
    return [str(folder) for folder in (programs, environment, plain)]


def test_tools_of_another_machine_are_not_found_and_all_else_is(
    tmp_path: Path, machine: Any, host_path: list[str]
) -> None:
    described, folder = machine("mi355x"), str(tmp_path / "tools")
    tools.build(folder, described, sys.executable)
    path = tools.masked_path(os.pathsep.join(host_path), folder, described)
    assert shutil.which("nvidia-smi", path=path) is None
    assert shutil.which("nvcc", path=path) is None
    assert shutil.which("rocm-smi", path=path) == os.path.join(folder, "bin", "rocm-smi")
    assert (
        subprocess.run([shutil.which("grep", path=path) or ""], capture_output=True, text=True).stdout == "real grep\n"
    )
    assert path.split(os.pathsep)[-1] == host_path[-1]
    assert tools.masked_path(path, folder, described) == path


def test_another_process_may_make_the_same_mirror_first(
    tmp_path: Path, machine: Any, host_path: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    described, folder = machine("mi355x"), str(tmp_path / "tools")
    rename = os.rename

    def late(source: str, target: str) -> None:
        shutil.copytree(source, target, symlinks=True)
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    path = tools.masked_path(os.pathsep.join(host_path), folder, described)
    assert shutil.which("nvcc", path=path) is None
    assert shutil.which("grep", path=path) is not None
    assert {made.name for made in (tmp_path / "tools" / "mirrors").glob("*/bin*")} == {"bin"}


def test_a_mirrored_virtual_environment_is_still_one(tmp_path: Path, machine: Any, host_path: list[str]) -> None:
    described, folder = machine("mi355x"), str(tmp_path / "tools")
    path = tools.masked_path(os.pathsep.join(host_path), folder, described)
    python = shutil.which("python", path=path)
    assert python is not None
    code = "import sys; print(sys.prefix != sys.base_prefix)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_cuda_machine_keeps_the_hosts_own_tools_and_answers_for_its_smi(
    tmp_path: Path, machine: Any, host_path: list[str]
) -> None:
    described, folder = machine("h100"), str(tmp_path / "tools")
    tools.build(folder, described, sys.executable)
    path = tools.masked_path(os.pathsep.join(host_path), folder, described)
    assert path.split(os.pathsep)[1:] == host_path
    assert shutil.which("nvidia-smi", path=path) == os.path.join(folder, "bin", "nvidia-smi")


def test_a_disguised_process_takes_the_path_that_build_made(
    child: Any, tmp_path: Path, machine: Any, host_path: list[str]
) -> None:
    described, folder = machine("mi355x"), str(tmp_path / "tools")
    tools.build(folder, described, sys.executable)
    found = child(
        f"from masquerade.fakes import host, tools\nimport shutil\nhost.install(world)\n"
        f"os.environ['PATH'] = {os.pathsep.join(host_path)!r}\ntools.use(world, {folder!r})\n"
        "answer['which'] = [shutil.which(name) for name in ('nvidia-smi', 'rocminfo', 'grep')]",
        described,
    )
    assert found["which"][:2] == [None, os.path.join(folder, "bin", "rocminfo")]
    assert found["which"][2].endswith("/grep")


def test_tools_run_with_an_interpreter_that_knows_nothing_of_us(run: Run) -> None:
    """No site-packages, no PYTHONPATH, no user's sitecustomize."""
    done = run("h100", "nvidia-smi -L", env={"PYTHONPATH": "/nonexistent", "PYTHONSTARTUP": "/nonexistent"})
    assert done.stdout.startswith("GPU 0: ")
    assert done.stderr == ""


@pytest.mark.parametrize(("command", "reader"), [("nvidia-smi -q", "head -1"), ("rocminfo", "true")])
def test_a_reader_that_goes_away_is_no_error(run: Run, command: str, reader: str) -> None:
    done = run("h100" if "nvidia" in command else "mi355x", f"{command} | {reader}")
    assert done.stderr == ""


@pytest.mark.parametrize("name", [name for name in machines.names() if name != "here"])
def test_each_tool_of_each_machine_of_the_zoo_answers_or_says_what_it_lacks(name: str, machine: Any) -> None:
    world = World(machine(name), {})
    for tool in world.known("host.tools", []):
        if tool not in tools.PROGRAMS or tool in ("nvcc", "ptxas", "cuobjdump", "hipcc"):
            continue
        answer = import_module(f"masquerade.fakes.tools.{tools.PROGRAMS[tool]}").answer
        if tool == "amd-smi" and world.management("amdsmi") == "absent":
            continue
        for arguments in ([], ["-q"], ["-L"], ["--showproductname"], ["list"], ["static", "--json"], ["discovery"]):
            text, status = answer(world, tool, arguments)
            assert "unknown" not in text, (tool, arguments)
            assert 0 <= status <= 255
