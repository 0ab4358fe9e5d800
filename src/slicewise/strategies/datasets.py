"""Samples in the training part of well-known data sets."""

from slicewise.errors import UnknownName

SAMPLES = {
    "cifar10": 50_000,
    "coco": 118_287,
    "cosmoflow": 1_584,  # as the ParaDL runs had it
    "imagenet": 1_281_167,
    "mnist": 60_000,
    "openimages": 1_743_042,
}


def samples_of(dataset: str) -> int:
    if dataset not in SAMPLES:
        raise UnknownName("data set", dataset, SAMPLES, " or give the number of `samples`")
    return SAMPLES[dataset]
