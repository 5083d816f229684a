def select(arch):
    if arch.partition(":")[0] == "gfx950":
        return "ck"
    return "triton"
