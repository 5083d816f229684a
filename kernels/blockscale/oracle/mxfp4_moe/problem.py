"""What the MXFP4 MoE oracle must know of a layer, and the conditions that several backends share."""

from __future__ import annotations

from dataclasses import dataclass

from blockscale.kernels.checks import expect
from blockscale.kernels.mxfp4_moe import ACTIVATION_FORMATS
from blockscale.oracle import requirements
from blockscale.oracle.selection import expect_sizes

MODEL_FAMILIES = ("gpt-oss", "deepseek-v4")
ACTIVATIONS = ("swigluoai", "silu")


@dataclass(frozen=True)
class Mxfp4MoEProblem:
    """One MoE layer as a rank holds it. Sizes are those of the weights, of which the pads are padding already."""

    hidden_size: int
    intermediate_size: int
    model_family: str = "gpt-oss"
    activation: str = "swigluoai"
    is_act_and_mul: bool = True
    activation_format: str = "bf16"
    hidden_pad: int = 0
    intermediate_pad: int = 0
    lora: bool = False
    ep_size: int = 1
    dp_size: int = 1
    eplb: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError naming the field, its value and what was expected."""
        for name, known in (("model_family", MODEL_FAMILIES), ("activation_format", ACTIVATION_FORMATS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}: got {getattr(self, name)!r}, expected one of {', '.join(known)}")
        expect_sizes(self, "hidden_size", "intermediate_size", "ep_size", "dp_size")
        for name, size in (("hidden_pad", self.hidden_size), ("intermediate_pad", self.intermediate_size)):
            pad = getattr(self, name)
            is_a_part = isinstance(pad, int) and 0 <= pad < size
            expect(is_a_part, name, repr(pad), f"0 to {size - 1}: a part of the size, an integer")


GATED = requirements.holds(
    lambda p: p.is_act_and_mul and p.activation in ACTIVATIONS,
    "It computes gated swigluoai and silu, and the layer has {activation} (is_act_and_mul {is_act_and_mul}).",
)
PLAIN_LAYOUT = requirements.holds(
    lambda p: not p.eplb, "Load balancing would move experts between ranks, and its weights are shuffled."
)
ALIGNED_TO_256 = requirements.holds(
    lambda p: p.hidden_size % 256 == 0 and p.intermediate_size % 256 == 0,
    "It needs sizes in multiples of 256, and they are {hidden_size} (hidden) and {intermediate_size} (intermediate).",
)
BF16_ACTIVATIONS = requirements.holds(
    lambda p: p.activation_format == "bf16", "It takes bf16 activations, and the layer wants {activation_format}."
)
