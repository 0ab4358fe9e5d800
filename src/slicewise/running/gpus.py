"""The GPUs that torch sees on this host."""

import torch


def gpu_names() -> list[str]:
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
