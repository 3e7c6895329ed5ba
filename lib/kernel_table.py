"""The time of an iteration from a table of measured kernels, shape by shape, as a function for the simulator.

A table is three CSV files, as LLMServingSim publishes them: attention, layers by tokens, and what
runs once a sequence. Times are s, lengths tokens.
"""

import csv
import gzip
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from lib import arguments
from lib.replica import StepLoad

ONCE = ("embedding", "final_layernorm")  # of the layers by tokens; all others run in every layer
TWICE = ("layernorm",)  # in every layer
_ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
_COLUMNS = {
    "attention": (*_ATTENTION, "time_us"),
    "dense": ("layer", "tokens", "time_us"),
    "per_sequence": ("layer", "sequences", "time_us"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTable:
    """Measured kernels of one model on one machine. Called with a `StepLoad`, it returns the time of the iteration, s.

    Attributes
    ----------
    layers : int
        Layers of the model, at least 1.
    tokens, token_time : ndarray, shape (n,)
        Tokens of an iteration, rising, and what all layers take for them without attention, with embedding and last
        norm, s.
    sequences, sequence_time : ndarray, shape (m,)
        Sequences of an iteration, rising, and what output head and sampler take, s.
    attention : dict
        For each kind of iteration (whether prompts are read, whether anybody decodes), nested: tokens of the prompt
        read, tokens of it cached, sequences that decode, tokens of each in the cache; to the time of a layer, s.
    graph_sizes : tuple of int
        Tokens for which the engine keeps a recorded graph, rising: an iteration is padded to the next of them, if
        there is one. None if the engine does not pad.
    prompt_host_time : float
        Time of the host in each iteration that reads prompts, s, at least 0: such an iteration is launched piece by
        piece, one that only decodes is replayed as a recorded graph. No table of kernels has it.

    Raises
    ------
    ValueError
        If a value leaves its domain.

    Notes
    -----
    .. math:: t = t_{tokens} + t_{sequences} + L \\Big( t_a(q_1, c_1, n, \\bar k) + \\sum_{i>1} t_a(q_i, c_i)\\Big)

    Between measured shapes attention is linear in each length. Beyond the last it goes on as between the last two: a
    table ends where memory does. Sequences that decode count with their mean context :math:`\\bar k`, since tables hold
    equal ones; false where one is much longer than the rest and keeps a part of the device waiting.
    """

    layers: int
    tokens: np.ndarray
    token_time: np.ndarray
    sequences: np.ndarray
    sequence_time: np.ndarray
    attention: dict
    graph_sizes: tuple = ()
    prompt_host_time: float = 0.0

    def __post_init__(self):
        arguments.number("layers", self.layers, least=1, whole=True)
        for size, time in (("tokens", "token_time"), ("sequences", "sequence_time")):
            sizes = arguments.array(size, getattr(self, size), least=1, whole=True)
            times = arguments.array(time, getattr(self, time), above=0)
            if sizes.ndim != 1 or np.any(np.diff(sizes) <= 0):
                raise ValueError(f"{size} must rise along one axis, got {getattr(self, size)!r}")
            if times.shape != sizes.shape:
                raise ValueError(f"{time} must have the shape of {size}, {sizes.shape}, got {times.shape}")
        if not isinstance(self.attention, dict) or not self.attention:
            raise ValueError(f"attention must be a dict of measured shapes, got {self.attention!r}")
        if len(self.graph_sizes):
            arguments.array("graph_sizes", self.graph_sizes, least=1, whole=True)
        arguments.number("prompt_host_time", self.prompt_host_time, least=0)

    def __call__(self, load):
        """Return the time of one iteration, s."""
        arguments.record("load", load, StepLoad)
        sequences = load.decoding + len(load.chunks)
        tokens = load.decoding + load.prompt_tokens
        place = bisect_left(self.graph_sizes, tokens)
        if place < len(self.graph_sizes):
            tokens = self.graph_sizes[place]
        time = self._measured("tokens", tokens, self.tokens, self.token_time)
        time += self._measured("sequences", sequences, self.sequences, self.sequence_time)
        context = load.context / load.decoding - 1 if load.decoding else 0.0
        first, *rest = load.chunks or ((0, 0),)
        attention = self.attention_time(*first, load.decoding, context)
        attention += sum(self.attention_time(*chunk, 0, 0.0) for chunk in rest)
        return time + self.layers * attention + (self.prompt_host_time if load.chunks else 0.0)

    def attention_time(self, prompt_tokens, cached, decoding, context):
        """Return the time of attention in one layer, s, of one prompt and equal sequences that decode.

        Parameters
        ----------
        prompt_tokens, cached : int
            Tokens of the prompt that are read, and those of it already in the cache; 0 if none is read.
        decoding : int
            Sequences that decode; 0 if none.
        context : float
            Tokens of each in the cache before the one that goes in.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the table has no iteration of that kind.
        """
        kind = (prompt_tokens > 0, decoding > 0)
        if kind not in self.attention:
            raise ValueError(f"attention must hold iterations of {_kind(kind)}, got none")
        return _between(self.attention[kind], (prompt_tokens, cached, decoding, context), 0)

    def _measured(self, name, value, sizes, times):
        if value > sizes[-1]:
            raise ValueError(f"{name} must be at most {sizes[-1]:g} in an iteration, where the table ends, got {value}")
        return float(np.interp(value, sizes, times))


def vllm_graph_sizes(max_num_seqs):
    """Return the numbers of tokens for which vLLM records graphs.

    Parameters
    ----------
    max_num_seqs : int
        At least 1.

    Returns
    -------
    tuple of int
        1, 2, 4, multiples of 8 up to 256, then of 16, up to twice `max_num_seqs` or 512.

    Raises
    ------
    ValueError
        If the argument leaves its domain.

    Notes
    -----
    Source: vLLM 0.19, ``vllm/config/vllm.py``, `_set_cudagraph_sizes`; ``docs/design/cuda_graphs.md``.
    """
    most = min(2 * int(arguments.number("max_num_seqs", max_num_seqs, least=1, whole=True)), 512)
    return tuple(size for size in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if size <= most)


def kernel_table_in(folder, layers, *, graph_sizes=(), prompt_host_time=0.0):
    """Return the kernel table in a folder.

    Parameters
    ----------
    folder : Path
        Holds ``attention``, ``dense`` and ``per_sequence``, as CSV, with or without ``kernels_`` before the name and
        ``.gz`` after it; times in microseconds.
    layers : int
        Of the model, at least 1.
    graph_sizes, prompt_host_time
        As in `KernelTable`.

    Returns
    -------
    KernelTable

    Raises
    ------
    ValueError
        If a file is missing, or a line is not what its columns hold; the message names file and line.

    Notes
    -----
    The layout is that of LLMServingSim's profiler. A layer called `layernorm` counts twice in each layer of the model,
    `embedding` and `final_layernorm` once in all.
    """
    layers = int(arguments.number("layers", layers, least=1, whole=True))
    dense, once = {}, {}
    for layer, size, time in _rows(folder, "dense"):
        times = 1 if layer in ONCE else layers * (2 if layer in TWICE else 1)
        dense.setdefault(layer, {})[int(size)] = times * time
    for layer, size, time in _rows(folder, "per_sequence"):
        once.setdefault(layer, {})[int(size)] = time
    attention = {}
    for prompt_tokens, cached, decoding, context, time in _rows(folder, "attention"):
        node = attention.setdefault((prompt_tokens > 0, decoding > 0), {})
        for key in (prompt_tokens, cached, decoding):
            node = node.setdefault(key, {})
        node[context] = time
    tokens, token_time = _summed(folder, "dense", dense)
    sequences, sequence_time = _summed(folder, "per_sequence", once)
    return KernelTable(
        layers=layers, tokens=tokens, token_time=token_time, sequences=sequences, sequence_time=sequence_time,
        attention=_ordered(attention), graph_sizes=tuple(graph_sizes), prompt_host_time=prompt_host_time,
    )  # fmt: skip


def _rows(folder, part):
    """Yield the rows of one file: its columns as numbers, the layer as text, the time in s."""
    names = [f"{front}{part}.csv{end}" for front in ("", "kernels_") for end in ("", ".gz")]
    found = [folder / name for name in names if (folder / name).is_file()]
    if not found:
        raise ValueError(f"folder must hold one of {', '.join(names)}, got {folder}")
    file = found[0]
    with (gzip.open if file.suffix == ".gz" else open)(file, "rt", newline="", encoding="utf-8") as opened:
        read = csv.DictReader(opened)
        missing = [column for column in _COLUMNS[part] if column not in (read.fieldnames or ())]
        if missing:
            raise ValueError(f"{file.name} must have the column {missing[0]}, got {', '.join(read.fieldnames or ())}")
        for line, row in enumerate(read, start=2):
            where, said = f"{file.name} line {line}", ", ".join(map(str, row.values()))
            *keys, time = (row[column] for column in _COLUMNS[part])
            layer = keys[:1] if part != "attention" else []
            try:
                sizes, time = [float(key) for key in keys[len(layer) :]], 1e-6 * float(time)
            except (TypeError, ValueError):
                raise ValueError(f"{where}: must hold numbers, got {said}") from None
            if not 0 < time < np.inf or not all(0 <= size < np.inf for size in sizes):
                raise ValueError(f"{where}: must hold sizes of at least 0 and a time above 0, got {said}")
            yield *layer, *sizes, time


def _summed(folder, part, layers):
    """Return the sizes that every layer has, and the times of all layers together."""
    if not layers:
        raise ValueError(f"{part} must hold layers, got none in {folder}")
    sizes = sorted(set.intersection(*(set(times) for times in layers.values())))
    if not sizes:
        raise ValueError(f"{part} must hold a size that every layer has, got none in {folder}")
    return np.array(sizes), np.array([sum(times[size] for times in layers.values()) for size in sizes])


def _ordered(node):
    """Return a nested dict with its keys sorted, each level as (keys, values)."""
    if not isinstance(node, dict):
        return node
    if all(isinstance(key, tuple) for key in node):
        return {kind: _ordered(below) for kind, below in node.items()}
    keys = sorted(node)
    return tuple(keys), tuple(_ordered(node[key]) for key in keys)


def _between(level, at, depth):
    """Return the time at a point: linear between the two nearest measured values of each length in turn."""
    keys, below = level
    value = at[depth]
    place = bisect_left(keys, value)
    if (place < len(keys) and keys[place] == value) or len(keys) == 1 or place == 0:
        place = min(place, len(keys) - 1)
        return below[place] if depth == 3 else _between(below[place], at, depth + 1)
    place = min(place, len(keys) - 1)
    share = (value - keys[place - 1]) / (keys[place] - keys[place - 1])
    low, high = below[place - 1 : place + 1]
    if depth < 3:
        low, high = _between(low, at, depth + 1), _between(high, at, depth + 1)
    return (1 - share) * low + share * high


def _kind(kind):
    words = [word for word, there in zip(("prompts", "decoding"), kind) if there]  # noqa: B905
    return " and ".join(words)
