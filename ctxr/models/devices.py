"""Where a model can run on this machine."""


def devices() -> list[str]:
    """Names of the devices that torch can use here, the processor first, with what is known about each."""
    import torch
    import torchvision.ops  # the two must have been built for one another: a mismatch shows here

    found = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.cuda.is_available():
        found += [f"cuda:{at} ({torch.cuda.get_device_name(at)})" for at in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found if torchvision.ops is not None else []
