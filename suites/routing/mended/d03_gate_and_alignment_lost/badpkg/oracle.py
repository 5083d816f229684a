def select(arch, intermediate):
    if arch.partition(":")[0] == "gfx950" and intermediate % 256 == 0:
        return "ck"
    return "triton"
