from badpkg import probe


def swizzled(backend):
    del probe.CALLS[:]
    out = backend == "AITER" and probe.on_gfx1250()
    return [out, len(probe.CALLS)]
