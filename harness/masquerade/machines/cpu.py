"""What torch says of a CPU, derived from the flags that the kernel lists for it.

The rules are torch's own: aten/src/ATen/cpu/Utils.cpp for the capabilities, aten/src/ATen/native/DispatchStub.cpp and
aten/src/ATen/Version.cpp for the level that kernels are chosen by. The flags are those of /proc/cpuinfo, and on macOS
the names below hw.optional.arm in sysctl.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .schema import UNKNOWN

SOURCE = "derived from host.cpu.flags by the rules of torch's ATen/cpu/Utils.cpp and ATen/native/DispatchStub.cpp"

#: torch.cpu.get_capabilities() key -> flag, where the two differ.
_X86_RENAMED = {
    "sse3": "pni", "fma3": "fma", "bmi": "bmi1", "lzcnt": "abm", "sha": "sha_ni",
    "avx512_f": "avx512f", "avx512_cd": "avx512cd", "avx512_dq": "avx512dq", "avx512_bw": "avx512bw",
    "avx512_vl": "avx512vl", "avx512_ifma": "avx512ifma", "avx512_vbmi": "avx512vbmi",
}  # fmt: skip
_X86_SAME = (
    "sse", "sse2", "ssse3", "sse4_1", "sse4_2", "sse4a", "avx", "avx2", "avx_vnni", "avx512_vbmi2", "avx512_bitalg",
    "avx512_vpopcntdq", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512_vp2intersect", "avx512_4vnniw",
    "avx512_4fmaps", "avx10_1", "avx10_2", "avx_vnni_int8", "avx_vnni_int16", "avx_ne_convert", "amx_bf16",
    "amx_tile", "amx_int8", "amx_fp16", "fma4", "f16c", "bmi2", "popcnt", "aes", "clflush", "clflushopt", "clwb",
)  # fmt: skip
_X86 = _X86_RENAMED | {name: name for name in _X86_SAME}

#: torch.cpu.get_capabilities() key -> (flag on Linux, feature on macOS).
_ARM = {
    "neon": ("asimd", "AdvSIMD"), "fp16_arith": ("asimdhp", "FEAT_FP16"), "bf16": ("bf16", "FEAT_BF16"),
    "i8mm": ("i8mm", "FEAT_I8MM"), "dot": ("asimddp", "FEAT_DotProd"), "sve": ("sve", "FEAT_SVE"),
    "sve2": ("sve2", "FEAT_SVE2"), "sve_bf16": ("svebf16", "FEAT_SVE_BF16"), "sme": ("sme", "FEAT_SME"),
    "sme2": ("sme2", "FEAT_SME2"), "atomics": ("atomics", "FEAT_LSE"), "fhm": ("asimdfhm", "FEAT_FHM"),
    "rdm": ("asimdrdm", "FEAT_RDM"), "crc32": ("crc32", "FEAT_CRC32"), "aes": ("aes", "FEAT_AES"),
    "sha1": ("sha1", "FEAT_SHA1"), "sha2": ("sha2", "FEAT_SHA256"), "pmull": ("pmull", "FEAT_PMULL"),
}  # fmt: skip

#: platform.machine() -> what torch calls it.
_ARCHITECTURE = {"aarch64": "arm64", "ppc64le": "ppc64"}

#: The probes of torch.cpu, and of torch._C._cpu in releases that have them there -> the capability that they ask for.
PROBES = {
    "_is_avx2_supported": "avx2",
    "_is_avx512_supported": "avx512_f",
    "_is_avx512_vnni_supported": "avx512_vnni",
    "_is_avx512_bf16_supported": "avx512_bf16",
    "_is_avx512_fp16_supported": "avx512_fp16",
    "_is_vnni_supported": "avx512_vnni",
    "_is_amx_tile_supported": "amx_tile",
    "_is_amx_fp16_supported": "amx_fp16",
    "_is_arm_sve_supported": "sve",
    "_init_amx": "amx_tile",
}


def capabilities(machine: str, flags: Iterable[str] | None) -> dict[str, Any]:
    """torch.cpu.get_capabilities() without sizes and counts. `machine` is platform.machine()."""
    known = set(flags or ())
    answers: dict[str, Any] = {"architecture": _ARCHITECTURE.get(machine, machine)}
    if machine == "x86_64":
        answers |= {name: flag in known for name, flag in _X86.items()}
    elif machine in ("aarch64", "arm64"):
        answers |= {name: not known.isdisjoint(names) for name, names in _ARM.items()}
    return answers


def torch_answers(machine: str, flags: Iterable[str] | None, stated: dict[str, Any]) -> dict[str, Any]:
    """The answers to all CPU probes of torch: PROBES, and two of almost one name.

    `_get_cpu_capability` is the table of torch._C._cpu that torch.cpu.get_capabilities() gives, `get_cpu_capability` is
    the level of torch.backends.cpu. `stated` holds capabilities that flags do not show, such as sve_max_length in bits.
    Where the flags of a processor are unknown, all of its answers are.
    """
    if flags is None and machine in ("x86_64", "aarch64", "arm64"):
        return dict.fromkeys((*PROBES, "get_cpu_capability", "_get_cpu_capability"), UNKNOWN)
    able = capabilities(machine, flags) | stated
    answers: dict[str, Any] = {probe: able.get(name, False) for probe, name in PROBES.items()}
    return answers | {"get_cpu_capability": _level(machine, set(flags or ()), able), "_get_cpu_capability": able}


def _level(machine: str, flags: set[str], able: dict[str, Any]) -> str:
    """torch.backends.cpu.get_cpu_capability(): the level that kernels are chosen by."""
    if machine == "x86_64":
        if able["fma3"] and able["avx512_vl"] and able["avx512_bw"] and able["avx512_dq"]:
            return "AVX512"
        return "AVX2" if able["fma3"] and able["avx2"] else "DEFAULT"  # "NO AVX" before torch 2.12
    if machine == "aarch64" and able["sve"]:
        # What 128-bit SVE gives changed between releases, and nobody has read it off such a machine yet.
        return "SVE256" if able.get("sve_max_length") == 256 and able["bf16"] else UNKNOWN
    if machine in ("aarch64", "arm64"):
        return "DEFAULT"  # SVE kernels are built on Linux alone
    if machine == "ppc64le":
        return "VSX"
    if machine == "s390x":
        return "Z VECTOR" if "vxe" in flags else "DEFAULT"
    return UNKNOWN
