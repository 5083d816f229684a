import torch


def start_method():
    return "spawn" if torch.cuda.is_initialized() else "fork"
