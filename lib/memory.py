"""What fits: weights and caches against the memory of the machine."""

import numpy as np

from lib import arguments, footprint
from lib.footprint import BF16
from lib.hardware import Hardware

USABLE_SHARE = 0.9  # vLLM's default gpu_memory_utilization; kwon2023pagedattention


def cache_capacity(hardware, model, *, precision=BF16, usable_share=USABLE_SHARE):
    """Return the memory that is left for caches once the weights are in.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    precision : Precision
    usable_share : float
        Share of the memory that weights and caches may fill, above 0, at most 1.

    Returns
    -------
    float
        Bytes; 0 if the weights alone do not fit.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Activations, the allocator's slack and the driver live in the share left over. False
    if they need more than that, as with very large batches of prompt tokens.
    """
    arguments.record("hardware", hardware, Hardware)
    usable_share = arguments.number("usable_share", usable_share, above=0, most=1)
    return max(0.0, usable_share * hardware.capacity - footprint.weight_bytes(model, precision))


def largest_batch(hardware, model, context, *, precision=BF16, usable_share=USABLE_SHARE):
    """Return the largest batch whose caches fit beside the weights.

    Parameters
    ----------
    hardware : Hardware
    model : Model
    context : array_like
        Tokens cached for each sequence, at least 1.
    precision : Precision
    usable_share : float
        As in `cache_capacity`.

    Returns
    -------
    ndarray
        Whole sequences, in the shape of `context`; 0 if the weights or one cache do not fit.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    Caches are counted by the token: blocks of a paged cache add half a block each, and
    reserving the longest output in advance takes as much as that output would.
    """
    context = arguments.array("context", context, least=1)
    room = cache_capacity(hardware, model, precision=precision, usable_share=usable_share)
    return np.floor(room / footprint.kv_bytes(model, context, precision))
