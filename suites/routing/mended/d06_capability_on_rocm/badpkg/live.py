import torch


def select():
    if torch.version.hip:
        return "triton"
    if not torch.version.cuda:
        return "native"
    if torch.cuda.get_device_capability() >= (9, 0):
        return "wgmma"
    return "triton"
