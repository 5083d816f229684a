"""Asks vLLM's MoE oracles a question in plain words, and gives the answer with its reasons in words of our own."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

_ORACLES = "vllm.model_executor.layers.fused_moe.oracle"

#: What a refusal speaks of, by a word of it -> how a table of ours says it. The first that is found counts.
_REASONS = (
    ("is not enabled", "not switched on"),
    ("requires", "a package is missing"),
    ("current device", "not on this device"),
    ("act_and_mul", "needs a gated MLP"),
    ("activation format", "another layout of activations"),
    ("quantization scheme", "not for these formats of weights and activations"),
    ("parallel config", "not for this parallelism"),
    ("hash routing", "not for hash routing"),
    ("routing method", "not for this routing method"),
    ("routes adjusted", "routes where no other may"),
    ("router logits", "not for router logits of this type"),
    ("hidden dim", "not for this hidden size"),
    ("batch invariance", "not batch-invariant"),
    ("LoRA", "no LoRA"),
    ("activation", "not for this activation function"),
)

#: A log line of an oracle that names a backend and what it does not do.
_REFUSAL = re.compile(r"backend:? '?(?P<name>[\w-]+)'? does not support .*?since (?P<why>.*)", re.S)


def platform() -> str:
    """The name of the class that vLLM takes this machine's platform for."""
    _as_installed()
    return type(import_module("vllm.platforms").current_platform).__name__


def ask(oracle: str, **problem: Any) -> dict[str, Any]:
    """The backend that an oracle chooses, its kernel's class, and what each refused backend lacks.

    oracle: mxfp4, deepseek_v4, fp8_block, fp8_tensor, nvfp4 or unquantized. problem: fields of FusedMoEConfig and of
    its parallel configuration that differ from those of `moe_config`. An error keeps its type, not its words.
    """
    _as_installed()
    module, function, keys = _question(oracle)
    config = moe_config(**problem)
    with _configured(), _refusals(module.__name__) as refused:
        try:
            backend, kernel = function(config, **keys)
        except (NotImplementedError, ValueError) as error:
            raise type(error)(_together(refused) or "refused") from None
    chosen = backend.value
    return {
        "backend": re.sub(r"\W+", "_", chosen),
        "reason": kernel.__name__ if kernel is not None else "",
        "refused": {re.sub(r"\W+", "_", name): why for name, why in refused.items() if name != chosen},
    }


def ask_all(problems: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The answers to many problems, each {"args": [oracle], "kwargs": {...}}, from one process.

    An error is {"raised": its type, "message": type and text}, as in the judged record of a call of its own.
    """
    answers: dict[str, Any] = {}
    for name, problem in problems.items():
        try:
            answers[name] = ask(*problem["args"], **problem["kwargs"])
        except Exception as error:
            kind = type(error).__name__
            answers[name] = {"raised": kind, "message": f"{kind}: {str(error).splitlines()[0]}"}
    return answers


def _as_installed() -> None:
    """What a user of this machine has besides: the build for CPUs on one without a GPU, AITER's switch where it is.

    The wheel of the package index is the one for CUDA. A build for CPUs says so by its version, and since 0.28.0 by
    VLLM_TARGET_DEVICE too.
    """
    if torch.version.hip and importlib.util.find_spec("aiter"):
        os.environ["VLLM_ROCM_USE_AITER"] = "1"
    if not (torch.version.cuda or torch.version.hip or torch.version.xpu):
        os.environ["VLLM_TARGET_DEVICE"] = "cpu"
        build = str(Path(__file__).parent / "vllm_cpu_build")
        if build not in sys.path:
            sys.path.insert(0, build)


def _together(refused: dict[str, str]) -> str:
    """`not on this device: XPU, CPU; no LoRA: TRITON`."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why, []).append(name)
    return "; ".join(f"{why}: {', '.join(names)}" for why, names in by_reason.items())


def _question(oracle: str) -> tuple[Any, Any, dict[str, Any]]:
    """The oracle's module, its function, and the keys of the formats that it is asked about."""
    formats = import_module("vllm.model_executor.layers.quantization.utils.quant_utils")
    name, function, keys = {
        "mxfp4": ("mxfp4", "select_mxfp4_moe_backend", {}),
        "deepseek_v4": ("mxfp4", "select_deepseek_v4_mxfp4_moe_backend", {}),
        "fp8_block": ("fp8", "select_fp8_moe_backend", ("kFp8Static128BlockSym", "kFp8Dynamic128Sym")),
        "fp8_tensor": ("fp8", "select_fp8_moe_backend", ("kFp8StaticTensorSym", "kFp8StaticTensorSym")),
        "nvfp4": ("nvfp4", "select_nvfp4_moe_backend", ("kNvfp4Static", "kNvfp4Dynamic")),
        "unquantized": ("unquantized", "select_unquantized_moe_backend", {}),
    }[oracle]
    given = {
        key: getattr(formats, value) for key, value in zip(("weight_key", "activation_key"), keys or (), strict=False)
    }
    module = import_module(f"{_ORACLES}.{name}")
    return module, getattr(module, function), given


def moe_config(**changes: Any) -> Any:
    """A FusedMoEConfig: one device, 32 experts of which 4 are taken, 2880 wide (the sizes of gpt-oss-20b)."""
    config = import_module("vllm.model_executor.layers.fused_moe.config")
    activation = import_module("vllm.model_executor.layers.fused_moe.activation").MoEActivation
    alone = dict.fromkeys(("tp_size", "pcp_size", "dp_size", "ep_size", "sp_size"), 1)
    ranks = dict.fromkeys(("tp_rank", "pcp_rank", "dp_rank", "ep_rank"), 0)
    parallel: dict[str, Any] = {**alone, **ranks, "use_ep": False, "all2all_backend": "allgather_reducescatter"}
    parallel["enable_eplb"] = False
    parallel |= {name: changes.pop(name) for name in list(changes) if name in parallel}
    experts, routing = changes.pop("num_experts", 32), changes.pop("routing_method", "Renormalize")
    fields: dict[str, Any] = {
        "num_experts": experts,
        "num_local_experts": experts // parallel["ep_size"],
        "num_logical_experts": experts,
        "experts_per_token": 4,
        "hidden_dim": 2880,
        "intermediate_size": 2880,
        "activation": activation[changes.pop("activation", "SWIGLUOAI")],
        "device": "cpu",
        "routing_method": config.RoutingMethodType[routing],
        "in_dtype": torch.bfloat16,
        **changes,
    }
    made = config.FusedMoEParallelConfig(**_known(config.FusedMoEParallelConfig, parallel))
    return config.FusedMoEConfig(moe_parallel_config=made, **_known(config.FusedMoEConfig, fields))


def _known(cls: type, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that this release of vLLM has."""
    return {name: value for name, value in fields.items() if name in inspect.signature(cls).parameters}


@contextmanager
def _configured() -> Iterator[None]:
    """vLLM's current configuration: its defaults, and a model of which nothing is said."""
    config = import_module("vllm.config")
    hf = SimpleNamespace(model_type="")
    whole = config.VllmConfig()
    whole.model_config = SimpleNamespace(quantization_config=None, hf_config=hf, hf_text_config=hf, is_moe=True)
    with config.set_current_vllm_config(whole):
        yield


@contextmanager
def _refusals(name: str) -> Iterator[dict[str, str]]:
    """What an oracle logs of backends that it refuses, in our words."""
    refused: dict[str, str] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found = _REFUSAL.search(record.getMessage())
            if found:
                told = next((ours for word, ours in _REASONS if word in found["why"]), "refused")
                refused.setdefault(found["name"], told)

    # What was logged once is logged again: each question gets all that is said to it.
    for function in list(vars(import_module("vllm.logger")).values()):
        if hasattr(function, "cache_clear"):
            function.cache_clear()
    logger, listener = logging.getLogger(name), Listener(logging.DEBUG)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(listener)
    try:
        yield refused
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
