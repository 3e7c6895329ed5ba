"""The bus itself: a decoder with slots, run on this machine's processor and timed as it goes."""

import random
import time

import torch

from lib import arguments, decode
from lib.llama import cache_numbers


class Bus:
    """A decoder, its cache, and who sits in it. As `lib.boarding.ride` wants it.

    Parameters
    ----------
    decoder : lib.decode.Decoder
    slots : int
        At least 1.
    prompt : int
        Tokens of each prompt, at least 1.
    room : int
        Tokens that each slot has room for, at least `prompt` + 1.

    Notes
    -----
    Tokens are drawn greedily from random weights and mean nothing; the time of a step does not
    depend on them. The cache is filled with random numbers first: memory that nobody wrote
    to is not really there, and would be read too fast. A probe is a step done twice, the second time off the
    clock: it says what that step takes without being part of the run.
    """

    def __init__(self, decoder, slots, prompt, room):
        arguments.record("decoder", decoder, decode.Decoder)
        self.slots = int(arguments.number("slots", slots, least=1, whole=True))
        self.prompt = int(arguments.number("prompt", prompt, least=1, whole=True))
        room = int(arguments.number("room", room, least=self.prompt + 1, whole=True))
        generator = torch.Generator().manual_seed(0)
        kind, vocabulary = decode.DTYPES[decoder.dtype], decoder.model.vocab_size
        storage = torch.empty(cache_numbers(decoder.model, self.slots, room), dtype=kind)
        block = torch.randn(2**20, generator=generator).to(kind)
        for piece in storage.split(2**20):
            piece.copy_(block[: piece.numel()])
        self.decoder = decoder
        self.cache = decode.cache(decoder, self.slots, room, storage=storage)
        self.prompts = torch.randint(0, vocabulary, (self.slots, self.prompt), generator=generator)
        self.tokens = torch.randint(0, vocabulary, (self.slots, 1), generator=generator)
        self.start(0.0)

    def start(self, probe_share, *, seed=0):
        """Empty the bus, set its clock to 0, and say which share of the steps is to be probed, drawn by a seed."""
        self.share, self.rng, self.probes = probe_share, random.Random(seed), []
        self.cache.filled[:] = [0] * self.slots
        self.taken, self.started = 0, time.perf_counter()

    def wait(self, until):
        """Sleep until that time, and return the time."""
        left = until - self._now()
        if left > 0:
            time.sleep(left)
        return self._now()

    def board(self, count):
        """Read `count` prompts into the slots behind those taken, and return the time."""
        first, self.taken = self.taken, self.taken + count
        return self._run(self.prompts[:count], first, 0)

    def step(self):
        """Give each slot taken a token, and return the time."""
        return self._run(self.tokens[: self.taken], 0, max(self.cache.filled[: self.taken]) + 1)

    def _run(self, tokens, first, longest):
        """Read tokens, and return the time; sometimes do the same work once more before or after, off the clock."""
        slots = slice(first, first + len(tokens))
        if not longest:
            self.cache.filled[slots] = [0] * len(tokens)
        held = self.cache.filled[slots]
        probed = self.share > 0 and (not longest or self.rng.random() < self.share)
        before = probed and self.rng.random() < 0.5
        if before:
            self._probe(tokens, first, longest, held)
        logits = decode.forward(self.decoder, self.cache, tokens, first)
        self.tokens[slots, 0] = logits.argmax(dim=-1)
        now = self._now()
        if probed and not before:
            self._probe(tokens, first, longest, held)
        return now

    def _probe(self, tokens, first, longest, held):
        """Time the work, leave everything as it was, and hold the clock meanwhile."""
        slots, began = slice(first, first + len(tokens)), time.perf_counter()
        after, self.cache.filled[slots] = self.cache.filled[slots], held
        decode.forward(self.decoder, self.cache, tokens, first).argmax(dim=-1)
        self.cache.filled[slots] = after
        took = time.perf_counter() - began
        self.started += took
        self.probes.append((len(tokens), longest, took))

    def leave(self, slot):
        """Free a slot; the last one taken moves into it."""
        self.taken -= 1
        if slot != self.taken:
            decode.move(self.cache, self.taken, slot)
            self.tokens[slot] = self.tokens[self.taken]

    def step_time(self, size):
        """Return the time of a step of so many sequences that have just boarded; empties the bus."""
        self.start(0.0)
        before = self.board(size)
        return self.step() - before

    def _now(self):
        return time.perf_counter() - self.started


def bus(model, slots, prompt, room, *, dtype="fp32", linear="auto", threads=1):
    """Return a bus that has run each kernel once.

    Parameters
    ----------
    model : Model
        Llama-style.
    slots, prompt, room : int
        As `Bus` takes them.
    dtype, linear : str
        As `lib.decode.decoder` takes them.
    threads : int
        Of the processor, at least 1; for the whole process.

    Returns
    -------
    Bus

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    threads = int(arguments.number("threads", threads, least=1, whole=True))
    made = Bus(decode.decoder(model, dtype=dtype, linear=linear), slots, prompt, room)
    torch.set_num_threads(threads)
    for size in sorted({1, made.slots}):
        made.step_time(size)
    return made
