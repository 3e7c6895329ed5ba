"""The bus itself: a decoder with slots, run on this machine's processor and timed as it goes."""

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
    to is not really there, and would be read too fast.
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
        self.taken, self.started = 0, time.perf_counter()

    def start(self):
        """Empty the bus and set its clock to 0."""
        self.taken, self.started = 0, time.perf_counter()
        self.cache.filled[:] = [0] * self.slots

    def wait(self, until):
        """Sleep until that time, and return the time."""
        left = until - self._now()
        if left > 0:
            time.sleep(left)
        return self._now()

    def board(self, count):
        """Read `count` prompts into the slots behind those taken, and return the time."""
        first, last = self.taken, self.taken + count
        self.cache.filled[first:last] = [0] * count
        logits = decode.forward(self.decoder, self.cache, self.prompts[:count], first)
        self.tokens[first:last, 0] = logits.argmax(dim=-1)
        self.taken = last
        return self._now()

    def step(self):
        """Give each slot taken a token, and return the time."""
        logits = decode.forward(self.decoder, self.cache, self.tokens[: self.taken])
        self.tokens[: self.taken, 0] = logits.argmax(dim=-1)
        return self._now()

    def leave(self, slot):
        """Free a slot; the last one taken moves into it."""
        self.taken -= 1
        if slot != self.taken:
            decode.move(self.cache, self.taken, slot)
            self.tokens[slot] = self.tokens[self.taken]

    def step_time(self, size, longest, *, ragged):
        """Return the time of a step that ends with `longest` tokens in the longest sequence, as many or half in others."""
        self.start()
        self.taken = size
        other = max(longest // 2, 1) if ragged else longest
        self.cache.filled[:size] = [longest - 1] + [other - 1] * (size - 1)
        before = self._now()
        return self.step() - before

    def boarding_time(self, count):
        """Return how long it takes to read `count` prompts."""
        self.start()
        before = self._now()
        return self.board(count) - before

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
        made.boarding_time(size)
        made.step_time(size, made.prompt + 1, ragged=size > 1)
    return made
