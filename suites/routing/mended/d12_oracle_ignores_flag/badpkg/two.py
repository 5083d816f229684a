def resolve(model):
    return {"use_deep_gemm": model != "excluded"}


def linear(model):
    return "deep_gemm" if resolve(model)["use_deep_gemm"] else "cutlass"


def moe(model):
    return "deep_gemm" if resolve(model)["use_deep_gemm"] else "cutlass"
