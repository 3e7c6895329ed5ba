"""Batches with a cap and a timeout: the whole law of the time from arrival to the end of the batch.

Rates are 1/s, times s. Arrivals are Poisson; the time of a batch has any law, one for each size. The
closed forms are in `lib.bulk` (means) and `lib.timeout_batching` (no cap); here a chain is solved on a grid.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter
from scipy.sparse.linalg import LinearOperator, gmres
from scipy.special import gammainc

from lib import arguments
from lib.domains import checked, single
from lib.embedded_chain import arrivals_law


class SojournLaw(NamedTuple):
    """What `sojourn_law` returns.

    Attributes
    ----------
    mean : float
        Time from arrival to the end of the batch, s.
    mean_batch : float
        Requests.
    busy_fraction : float
        Share of time with a batch in service.
    time, share : ndarray, shape (n,)
        Times on a grid from 0, s, and the share of requests that each stands for.
    """

    mean: float
    mean_batch: float
    busy_fraction: float
    time: np.ndarray
    share: np.ndarray


def sojourn_law(arrival_rate, batch_time, share, timeout, *, cells=100):
    r"""Return the law of the time from arrival to the end of the batch, with a cap and a timeout of any length.

    Parameters
    ----------
    arrival_rate : float
        Poisson arrivals, 1/s, above 0.
    batch_time : array_like, shape (b, k)
        Times that a batch of 1..b requests may take, s, above 0. Its rows are the cap.
    share : array_like, shape (b, k)
        How often it takes them, at least 0; each row sums to 1.
    timeout : float
        An idle server starts when a full batch waits or the oldest request has waited this long, s. May be
        longer than a batch. Less than a twentieth of a cell counts as 0.
    cells : int
        Cells of the grid in the shortest mean time of a batch, at least 10: the error falls with their square.

    Returns
    -------
    SojournLaw
        `inf` for the mean, and no law, unless ``arrival_rate`` times the mean time of a full batch is below b.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Let X be the age of the oldest request when a batch ends, 0 if the next one is still to come. Given X = x,
    those behind the oldest are Poisson on (0, x), whatever happened before, so X is a Markov chain. With
    :math:`N(u)` Poisson of mean :math:`\lambda u`, :math:`m = \max(x, T)` and :math:`G_j` the gap from the
    oldest to the j-th behind it:

    - :math:`N(m) \le b - 2`: a batch of :math:`r = N(m) + 1` starts at age m;
    - :math:`x < G_{b-1} \le T`: a batch of b starts at age :math:`G_{b-1}`;
    - :math:`G_{b-1} \le x < G_b`: a batch of b starts at once; in these three nobody is left, and
      :math:`X' = (S_r - E)^+`, E exponential;
    - :math:`G_b \le x`: a batch of b starts at once, and :math:`X' = x - G_b + S_b`.

    Ages are kept on a grid; what falls between two of its points is shared so that means stay. The
    sojourn is the age at the start, for each request of the batch, plus its time. Source: [derived]; meets
    `lib.bulk`, `lib.timeout_batching` and simulation.
    """
    rate, timeout = single(arrival_rate=arrival_rate), arguments.number("timeout", timeout, least=0)
    batch_time, share = _laws(batch_time, share)
    cells = int(arguments.number("cells", cells, least=10, whole=True))
    cap, means = len(batch_time), (batch_time * share).sum(axis=1)
    if rate * means[-1] >= cap:
        return SojournLaw(np.inf, float(cap), 1.0, np.zeros(0), np.zeros(0))
    step = means.min() / cells
    wait = round(timeout / step) or int(timeout >= step / 20)
    if wait:
        step = timeout / wait
    size = next_fast_len(wait + int(np.ceil(4 * batch_time.max() / step)) + 2)
    while True:
        chain = _Chain(rate, step, wait, _on_grid(batch_time / step, share, size))
        ages = chain.stationary()
        if ages[-size // 8 :].sum() < 1e-10:
            break
        size = next_fast_len(2 * size)
    riders, sizes = chain.delays(ages)
    late = np.sum(irfft(rfft(riders, 2 * size) * chain.times_transform, 2 * size), axis=0)
    late = np.maximum(late, 0) / late.sum()
    mean_batch, grid = float(sizes @ np.arange(1, cap + 1)), step * np.arange(2 * size)
    return SojournLaw(float(late @ grid), mean_batch, float(rate * (sizes @ means) / mean_batch), grid, late)


def _laws(batch_time, share):
    (batch_time,), (share,) = checked(batch_time=batch_time), (arguments.array("share", share, least=0),)
    if batch_time.ndim != 2 or share.shape != batch_time.shape:
        raise ValueError(f"batch_time and share must have the same two axes, got {batch_time.shape} and {share.shape}")
    off = np.abs(share.sum(axis=1) - 1)
    if off.max() > 1e-9:
        raise ValueError(f"share must sum to 1 in each row, got {share.sum(axis=1)[off.argmax()]:g}")
    return batch_time, share


def sojourn_quantile(law, level):
    """Return the time that a share of requests does not exceed.

    Parameters
    ----------
    law : SojournLaw
    level : float
        Between 0 and 1.

    Returns
    -------
    float
        Seconds; `inf` for an unstable server.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Each point of the grid stands for the cell around it. Source: [derived].
    """
    arguments.record("law", law, SojournLaw)
    level = single(level=level)
    if not law.time.size:
        return np.inf
    ends = law.time + law.time[1] / 2
    return float(np.interp(level, np.cumsum(law.share), ends))


def _on_grid(times, share, size):
    """Return the laws of `times`, in grid steps, on the grid 0..size-1: shape (b, size)."""
    below = np.floor(times).astype(int)
    above = times - below
    made = np.zeros((len(times), size))
    row = np.arange(len(times))[:, None] + np.zeros_like(below)
    np.add.at(made, (row, below), share * (1 - above))
    np.add.at(made, (row, below + 1), share * above)
    return made


class _Chain:
    """The age of the oldest request at the end of a batch, on a grid of `step`; see `sojourn_law`."""

    def __init__(self, rate, step, wait, times):
        self.rate, self.step, self.wait, self.times = rate, step, wait, times
        self.cap, self.size = times.shape
        self.gaps = rate * step * np.arange(self.size + 1)  # arrivals expected in 0, 1, ... steps
        self.law = arrivals_law(self.gaps[:-1, None], 0, np.arange(self.cap))
        self.start = np.maximum(np.arange(self.size), wait)
        self.times_transform = rfft(times, 2 * self.size)
        self.none_left = np.empty((self.size, self.cap))
        self.none_left[:, :-1] = self.law[self.start, :-1]
        few = self.at_most(self.cap - 2)
        full_later = few[:-1] - few[self.start]
        self.none_left[:, -1] = full_later + self.law[:, -1]
        low, high = self.erlang(self.cap)
        self.behind = [rfft(kernel, 2 * self.size).conj() for kernel in (low, np.append(0, high[:-1]))]
        decay = np.exp(-rate * step)
        # An exponential gap: from cell to cell, and how much of it the upper end of its cell has.
        self.decay = decay, 1 / (rate * step) - decay / (1 - decay)

    def at_most(self, count):
        """Return the probability of at most `count` arrivals in 0, 1, ... steps."""
        return 1 - self.reached(count + 1)

    def reached(self, count):
        """Return the probability of at least `count` arrivals in 0, 1, ... steps."""
        return gammainc(count, self.gaps) if count > 0 else np.ones(self.gaps.size)

    def erlang(self, stages):
        """Return the law of the gap to the next but `stages` - 1, cell by cell, shared by the cell's two ends."""
        mass = np.diff(self.reached(stages))
        above = stages * np.diff(self.reached(stages + 1)) / (self.rate * self.step) - np.arange(self.size) * mass
        above = np.clip(above, 0, mass)
        return mass - above, above

    def stationary(self):
        """Return the law of the age: the fixed point of a step, kept to a sum of 1."""
        first = np.eye(1, self.size)[0]
        balance = LinearOperator((self.size, self.size), lambda ages: ages - self._step(ages) + ages.sum() * first)
        ages, _ = gmres(balance, first, x0=self._step(first), rtol=1e-11, restart=60, maxiter=50)
        ages = np.maximum(ages, 0)
        return ages / ages.sum()

    def _step(self, ages):
        """Return the law of the age at the end of the next batch."""
        seen = rfft(ages, 2 * self.size)
        left = irfft(seen * self.behind[0], 2 * self.size)[: self.size]
        left[0] = 0
        left += irfft(seen * self.behind[1], 2 * self.size)[: self.size]
        after = irfft(rfft(left, 2 * self.size) * self.times_transform[-1], 2 * self.size)
        after[self.size - 1] += after[self.size :].sum()
        decay, above = self.decay
        ended = (ages @ self.none_left) @ self.times
        since = lfilter([1.0], [1.0, -decay], ended[::-1])[::-1]
        alone = (1 - decay) * (1 - above) * since
        alone[:-1] += (1 - decay) * above * since[1:]
        alone[0] = since[0] + (1 - decay) * above * since[1]
        return alone + after[: self.size]

    def delays(self, ages):
        """Return what requests wait until their batch starts, for each size of it, and the law of the size.

        The first, shape (b, size), sums to the mean batch.
        """
        late = np.zeros((self.cap, self.size))
        starts = np.bincount(self.start, ages, self.size)
        for size in range(1, self.cap):
            late[size - 1] = starts * self.law[:, size - 1]
            if size > 1:
                late[size - 1] += self._between(self.rate * self.step * starts * self.law[:, size - 2])
        late[-1] = ages * self.reached(self.cap - 1)[:-1] + self._full_at_once(ages) + self._full_later(ages)
        sizes = ages @ self.none_left
        sizes[-1] += ages @ self.reached(self.cap)[:-1]
        return late, sizes

    @staticmethod
    def _between(density):
        """Return the law of times that are even between 0 and n steps, `density` at n for each step."""
        beyond = np.cumsum(density[::-1])[::-1]
        law = beyond - density / 2
        law[0] = (beyond[0] - density[0]) / 2
        return law

    def _full_at_once(self, ages):
        """Return the delays of those behind the oldest where a full batch waits already."""
        law, seen = np.zeros(self.size), rfft(ages, 2 * self.size)
        for before in range(self.cap - 1):
            lag = irfft(seen * rfft(self.law[:, before], 2 * self.size).conj(), 2 * self.size)[: self.size]
            if before == 0:
                lag = lag - ages / 2
            lag[0] = (lag[0] - (ages[0] / 2 if before == 0 else 0)) / 2
            law += self.rate * self.step * lag * self.reached(self.cap - 2 - before)[:-1]
        return law

    def _full_later(self, ages):
        """Return the delays where the batch fills while it waits."""
        law = np.zeros(self.size)
        if self.cap == 1 or not self.wait:
            return law
        waiting = np.cumsum(ages) * (np.arange(self.size) < self.wait)
        low, high = (waiting * part for part in self.erlang(self.cap - 1))
        law += low + np.append(0, high[:-1])
        law[0] += low.sum() + high.sum()
        if self.cap > 2:
            low, high = (self.rate * self.step * waiting * part for part in self.erlang(self.cap - 2))
            law += self._between(low + np.append(0, high[:-1]))
        return law
