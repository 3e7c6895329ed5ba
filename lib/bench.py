"""The bench that a measurement runs on: decoder, ceilings and clock in one process, on a CPU or a GPU."""

import platform
import time

import numpy as np
import torch

from lib import arguments, decode, footprint, machine
from lib.llama import cache_numbers

TIMED_FOR, MOST_STEPS = 0.08, 5
LEAST_PRODUCT_TIME = 0.01


def refuse(device, dtype, linear):
    """Raise ValueError if this machine cannot run that, and say what it can.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    dtype : {"fp32", "bf16"}
    linear : {"auto", "packed", "plain"}
    """
    if arguments.choice("device", device, decode.DEVICES) == "cuda":
        if not torch.cuda.is_available():
            raise ValueError("device must be cpu where torch finds no CUDA, got 'cuda'")
        if dtype == "bf16" and not torch.cuda.is_bf16_supported():
            raise ValueError("dtype must be fp32 on this GPU, got 'bf16'")
    packs = decode.packs(arguments.choice("dtype", dtype, ("fp32", "bf16")), device)
    if arguments.choice("linear", linear, decode.LINEAR) == "packed" and not packs:
        raise ValueError(f"linear must be auto or plain for {dtype} on this {device}, got 'packed'")


def described(device, threads=None):
    """Return what the measurement runs on.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    threads : int, optional
        Processor threads that were asked for, at least 1.

    Returns
    -------
    dict
        "machine", "versions", "threads", "last_cache" and "free_memory" in bytes.
    """
    if threads is not None:
        threads = int(arguments.number("threads", threads, least=1, whole=True))
    found = machine.processor()
    last_cache, free = found["last_cache"], machine.free_memory()
    if arguments.choice("device", device, decode.DEVICES) == "cuda":
        card, free = torch.cuda.get_device_properties(0), torch.cuda.mem_get_info()[0]
        last_cache = card.L2_cache_size
        found["gpu"] = {
            "name": card.name, "memory": card.total_memory, "multiprocessors": card.multi_processor_count,
            "last_cache": last_cache, "driver": machine.driver(), "cuda": torch.version.cuda,
        }  # fmt: skip
    versions = {
        "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(), "onednn": torch.backends.mkldnn.is_available(),
    }  # fmt: skip
    return {
        "machine": found, "versions": versions, "threads": threads or torch.get_num_threads(),
        "last_cache": last_cache, "free_memory": free,
    }  # fmt: skip


class Bench:
    """A decoder, one storage for every cache, and the operands of the ceilings.

    Parameters
    ----------
    model : Model
        Llama-style.
    settings : dict
        "dtype", "device", "linear", "threads", "working_set" in bytes.
    points : list of (int, int)
        Batch size and context of each point.
    product_flop : float, optional
        FLOP of the matrix product that a run began with. Default: of one that lasts
        `LEAST_PRODUCT_TIME` at least.

    Attributes
    ----------
    linear : str
        As `lib.decode.Decoder` says it.
    amounts : dict of str to float
        Bytes or FLOP that one call of each ceiling moves or computes.
    """

    def __init__(self, model, settings, points, *, product_flop=None):
        self.device, self.dtype = settings["device"], settings["dtype"]
        self.kind = decode.DTYPES[self.dtype]
        self.clock = _seconds_by_events if self.device == "cuda" else _seconds_by_processor
        torch.manual_seed(0)
        if self.device == "cpu":
            torch.set_num_threads(settings["threads"])
        self.decoder = decode.decoder(model, dtype=self.dtype, device=self.device, linear=settings["linear"])
        self.linear = self.decoder.linear
        self.storage = torch.empty(
            max(cache_numbers(model, *point) for point in points), dtype=self.kind, device=self.device
        )
        block = self._random(2**20)
        for piece in self.storage.split(2**20):
            piece.copy_(block[: piece.numel()])
        self.ceilings = self._operands(settings["working_set"], product_flop)
        self.amounts = {name: float(amount) for name, (_, amount) in self.ceilings.items()}

    def _random(self, *shape):
        return torch.randn(shape, device=self.device).to(self.kind)

    def _multiplier(self, *shape):
        return decode.multiplier(self._random(*shape), self.linear == "packed")

    def _operands(self, working_set, product_flop):
        """Return for each ceiling what to call, and the bytes or FLOP of one call."""
        width = 2048 if self.device == "cpu" else 8192
        source = torch.ones(int(working_set) // 4, device=self.device)
        target = torch.empty_like(source)
        each = 4 * width * width * footprint.dtype_bytes(self.dtype)
        matrices = [self._multiplier(4 * width, width) for _ in range(-int(-working_set // each))]
        row, square = self._random(1, width), self._multiplier(width, width)
        count = round(product_flop / 2 / width**2) if product_flop else width // (32 if self.device == "cpu" else 1)
        rows = self._random(count, width)
        with torch.inference_mode():
            while not product_flop and count < 2 * width:
                if min(self.clock(lambda rows=rows: square(rows), 2)) > LEAST_PRODUCT_TIME:
                    break
                count *= 2
                rows = self._random(count, width)
        return {
            "read": (source.sum, source.nbytes),
            "copy": (lambda: target.copy_(source), 2 * source.nbytes),
            "matrix_vector": (lambda: [product(row) for product in matrices], len(matrices) * each),
            "matrix_multiply": (lambda: square(rows), 2 * rows.numel() * width),
        }

    def step(self, batch_size, context):
        """Return a call that runs one step: each of the sequences attends to `context` tokens, its new one included."""
        cache = decode.cache(self.decoder, batch_size, context, storage=self.storage)
        tokens = torch.zeros(batch_size, 1, dtype=torch.long, device=self.device)

        def run():
            cache.filled[:] = [context - 1] * batch_size
            decode.forward(self.decoder, cache, tokens)

        return _captured(run, torch.cuda) if self.device == "cuda" else run

    def step_time(self, batch_size, context):
        """Return the seconds of one step: the better of two, after one that is dropped."""
        return min(self.clock(self.step(batch_size, context), 3)[1:])

    def rate(self, name):
        """Return what one ceiling allows now, B/s or FLOP/s."""
        call, amount = self.ceilings[name]
        with torch.inference_mode():
            return _digits(amount / self.clock(call, 1)[0])

    def visit(self, batch_size, context):
        """Return the times of some steps, the first dropped, and each ceiling right before and right after them."""
        step = self.step(batch_size, context)
        count = min(max(round(TIMED_FOR / self.clock(step, 1)[0]), 1), MOST_STEPS)
        before = {name: self.rate(name) for name in self.ceilings}
        times = [_digits(seconds) for seconds in self.clock(step, count)]
        after = {name: self.rate(name) for name in self.ceilings}
        return {"time": times} | {name: [before[name], after[name]] for name in self.ceilings}


def _digits(value):
    return float(f"{value:.5g}")


def _seconds_by_processor(call, count):
    """Return the seconds of each of `count` calls."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def _seconds_by_events(call, count, cuda=torch.cuda):
    """Return the seconds of each of `count` calls on the GPU: events in its stream, read when all have finished."""
    marks = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(count)]
    for before, after in marks:
        before.record()
        call()
        after.record()
    cuda.synchronize()
    return [before.elapsed_time(after) / 1e3 for before, after in marks]


def _captured(step, cuda):
    """Return the step as a CUDA graph, so that the host does not hold it up; as it is, if that fails."""
    try:
        aside = cuda.Stream()
        aside.wait_stream(cuda.current_stream())
        with cuda.stream(aside):
            step()
        cuda.current_stream().wait_stream(aside)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            step()
    except RuntimeError:
        return step
    return graph.replay
