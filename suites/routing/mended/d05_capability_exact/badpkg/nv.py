def fp8_ok(cap):
    return tuple(cap) >= (8, 9)
