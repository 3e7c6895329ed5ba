"""Evidence of the memory wall: C01 to C04 and C17."""

from dataclasses import replace

import numpy as np

from lib import article, footprint, hardware, memory, roofline
from lib import model as models
from lib.evidence import CONTEXT, MACHINE, MODEL, Evidence
from lib.units import quantity

FASTER, WAFER = "H200 SXM", "Cerebras WSE-2"
SERVING_BATCH, PROMPT = 256, 2048


def off_chip():
    """Return the accelerators that keep weights in memory off the chip: all but the wafer-scale one."""
    return {name: machine for name, machine in hardware.catalogue().items() if name != WAFER}


def _transfer_over_arithmetic(batch_size):
    """Return (ratio, accelerator, model) for the smallest ratio of transfer to arithmetic time.

    The ratio is the ridge point over the intensity, and the intensity is the same on every machine.
    """
    reference = hardware.hardware(MACHINE)
    intensity = {
        subject.name: float(roofline.intensity(roofline.decode_step(reference, subject, batch_size, CONTEXT)))
        for subject in models.catalogue().values()
    }
    return min(
        (hardware.ridge_point(machine) / intensity[name], machine.name, name)
        for machine in off_chip().values()
        for name in intensity
    )


def _memory_wall():
    number, machine, subject = _transfer_over_arithmetic(1)
    edge, *_ = _transfer_over_arithmetic(SERVING_BATCH)
    ridges = [hardware.ridge_point(machine) for machine in off_chip().values()]
    words = {
        "edge_batch": quantity(SERVING_BATCH, ""), "worst": f"{machine} with {subject}",
        "ridge_least": quantity(min(ridges), ""), "ridge_most": quantity(max(ridges), ""),
    }
    return Evidence(number=number, edge=edge, words=words)


def _on_chip_memory():
    known = {name: machine.on_chip_memory for name, machine in hardware.catalogue().items() if machine.on_chip_memory}
    weights = footprint.weight_bytes(models.model(MODEL))
    ratios = {name: weights / known[name] for name in known if name in off_chip()}
    worst = min(ratios, key=ratios.get)
    smallest = min(footprint.weight_bytes(subject) for subject in models.catalogue().values())
    words = {
        "model": MODEL, "worst": worst, "wafer": WAFER, "wafer_memory": quantity(known[WAFER], "B"),
    }
    return Evidence(number=ratios[worst], edge=smallest / max(known.values()), words=words)


def _worked_example():
    machine = hardware.hardware(MACHINE)
    transfer, arithmetic = article.example_times(machine)
    pairs = ((transfer, article.TRANSFER_TIME), (arithmetic, article.ARITHMETIC_TIME))
    fitting = [one for one in off_chip().values() if memory.USABLE_SHARE * one.capacity >= article.WEIGHT_BYTES]
    words = {
        "machine": MACHINE, "transfer": quantity(transfer, "s"), "arithmetic": quantity(arithmetic, "s"),
        "capacity": quantity(machine.capacity, "B"), "fitting": str(len(fitting)), "all": str(len(off_chip())),
    }
    agreement = min(min(ours / theirs, theirs / ours) for ours, theirs in pairs)
    return Evidence(number=agreement, edge=machine.capacity / article.WEIGHT_BYTES, words=words)


def _idle_units():
    subject = models.model(MODEL)
    shares = {
        name: float(roofline.idle_share(roofline.decode_step(machine, subject, 1, CONTEXT)))
        for name, machine in off_chip().items()
    }
    worst = min(shares, key=shares.get)
    words = {
        "machine": MACHINE, "model": MODEL, "worst": f"{worst} with {quantity(shares[worst], '%')}",
        "reaching": str(sum(share >= 0.99 for share in shares.values())), "all": str(len(shares)),
    }
    return Evidence(number=shares[MACHINE], edge=shares[worst], words=words)


def _gain(machine, step):
    """Return the share by which a step speeds up when the machine has twice the FLOP/s."""
    doubled = replace(machine, flop_rates={dtype: 2 * rate for dtype, rate in machine.flop_rates.items()})
    return float(step(machine).time / step(doubled).time) - 1


def _stronger_gpu():
    subject, machine, faster = models.model(MODEL), hardware.hardware(MACHINE), hardware.hardware(FASTER)
    gains = {
        name: _gain(one, lambda one: roofline.decode_step(one, subject, 1, CONTEXT))
        for name, one in off_chip().items()
    }
    words = {
        "machine": MACHINE, "faster": FASTER, "prompt": quantity(PROMPT, ""),
        "bandwidth_ratio": quantity(faster.bandwidth / machine.bandwidth, "times"),
        "worst": max(gains, key=gains.get),
    }
    prefill = _gain(machine, lambda one: roofline.prefill_step(one, subject, PROMPT))
    return Evidence(number=float(np.max([*gains.values()])), edge=prefill, words=words)


EVIDENCE = {
    "C01": _memory_wall, "C02": _on_chip_memory, "C03": _worked_example, "C04": _idle_units, "C17": _stronger_gpu,
}  # fmt: skip
