"""What a public benchmark sees that keeps a number of users waiting: the time to the first token, simulated.

The client of InferenceMAX sends `users` requests at once, the next one whenever an answer is complete, ten for each
user, with lengths between eight tenths of what is asked for and all of it. So the first request of every user waits
in a crowd, the others do not; a mean over the run holds both.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lib import arguments, engines
from lib.deployment import Deployment, kv_tokens
from lib.engine_iteration import EngineIteration
from lib.simulation import simulate_closed_loop

ENGINES = ("vLLM", "TensorRT-LLM", "SGLang")
BUDGETS = {"vLLM": 8192, "TensorRT-LLM": 16_384, "SGLang": 8192}  # tokens of an iteration, in the benchmark's scripts
SHAPES = ((1024, 1024), (1024, 8192), (8192, 1024))
SHORTEST, ROUNDS = 0.8, 10
SIMULATED_ROUNDS = 3  # those after the first are alike
GATHERED, PATIENCE = 0.9, 20  # of TensorRT-LLM's budget; iterations
FEW, LONG = 8, 2048  # users; tokens
REGIMES = (
    "few users, short prompts", "few users, long prompts", "many users, short prompts", "many users, long prompts",
    "told to gather", "memory full", "client not documented",
)  # fmt: skip
SCRIPTS = (
    "InferenceMAX, benchmarks/70b_fp8_h200_trt_slurm.sh at 1b563c8585 and 70b_fp8_h200_slurm.sh at 032510b752:"
    " client, token budgets, batch_wait_timeout_iters"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """A run of the benchmark.

    Attributes
    ----------
    deployment : Deployment
    engine : {"vLLM", "TensorRT-LLM", "SGLang"}
    users : int
        At least 1.
    input_tokens, output_tokens : int
        The longest that are asked for, at least 1 and 2.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    deployment: Deployment
    engine: str
    users: int
    input_tokens: int
    output_tokens: int

    def __post_init__(self):
        arguments.record("deployment", self.deployment, Deployment)
        arguments.choice("engine", self.engine, ENGINES)
        for name, least in (("users", 1), ("input_tokens", 1), ("output_tokens", 2)):
            given = arguments.number(name, getattr(self, name), least=least, whole=True)
            object.__setattr__(self, name, int(given))


class FirstTokens(NamedTuple):
    """Mean times to the first token in a run of the benchmark, s.

    Attributes
    ----------
    whole : float
        Over the whole run, as the benchmark reports it.
    crowd, after : float
        Of the first request of each user, and of the others.
    held_back : float
        Part of `whole` that the engine spends waiting on purpose for more prompts: see `held_back`.
    time_per_token : float
        Mean time per output token after the first.
    """

    whole: float
    crowd: float
    after: float
    held_back: float
    time_per_token: float


def policy_of(run):
    """Return the rules of the engine with the limits that the benchmark gives it.

    Parameters
    ----------
    run : ClosedLoop

    Returns
    -------
    ContinuousBatching

    Raises
    ------
    ValueError
        If it is none, or no cache fits.

    Notes
    -----
    vLLM gets as many slots as there are users. TensorRT-LLM is taken to plan like vLLM, with its own budget.
    """
    arguments.record("run", run, ClosedLoop)
    tokens, budget = kv_tokens(run.deployment), BUDGETS[run.engine]
    if run.engine == "SGLang":
        return engines.sglang(tokens, chunked_prefill_size=budget)
    return engines.vllm(tokens, max_num_seqs=run.users, max_num_batched_tokens=budget, enable_prefix_caching=False)


def regime(run):
    """Return what decides over the first token of a run.

    Parameters
    ----------
    run : ClosedLoop

    Returns
    -------
    str
        One of `REGIMES`. The client is documented for the three shapes of InferenceMAX. The memory is full if the
        users' mean contexts, together, leave less than a tenth of it.

    Raises
    ------
    ValueError
        If it is none.
    """
    arguments.record("run", run, ClosedLoop)
    into, out = run.input_tokens, run.output_tokens
    if (into, out) not in SHAPES:
        return REGIMES[6]
    mean = (1 + SHORTEST) / 2
    if run.users * mean * (into + out / 2) > 0.9 * kv_tokens(run.deployment):
        return REGIMES[5]
    if gathers(run):
        return REGIMES[4]
    return REGIMES[(into > LONG) + 2 * (run.users > FEW)]


def gathers(run):
    """Return whether the benchmark tells the engine to hold prompts back.

    Parameters
    ----------
    run : ClosedLoop

    Returns
    -------
    bool

    Notes
    -----
    TensorRT-LLM, as many tokens in as out, about a thousand each, fewer than 8 devices: `SCRIPTS`.
    """
    arguments.record("run", run, ClosedLoop)
    even = run.input_tokens == run.output_tokens == 1024
    return run.engine == "TensorRT-LLM" and even and run.deployment.devices < 8


def held_back(run, time_per_token):
    r"""Return the mean time that TensorRT-LLM holds a prompt back when it is told to gather.

    Parameters
    ----------
    run : ClosedLoop
    time_per_token : float
        Of an iteration, s, above 0.

    Returns
    -------
    float
        Seconds; 0 for a run that does not gather.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Prompts wait until nine tenths of the token budget are there, or for 20 iterations. In that time
    :math:`k = 20 \, n / \mathrm{OSL}` more come from n users, for whom it is shorter:

    .. math:: \frac{20 + k \cdot 10}{1 + k}\, t

    False where k prompts fill the budget, as the crowd of the first round does: that waits for nothing.
    Source: `SCRIPTS`.
    """
    time_per_token = arguments.number("time_per_token", time_per_token, above=0)
    if not gathers(run):
        return 0.0
    mean = (1 + SHORTEST) / 2
    more = PATIENCE * run.users / (mean * run.output_tokens)
    wait = PATIENCE * (1 + more / 2) / (1 + more) * time_per_token
    filled = run.users * mean * run.input_tokens >= GATHERED * BUDGETS[run.engine]
    return wait * (1 - filled / ROUNDS)


def first_tokens(run, coefficients, rng):
    """Return the mean times to the first token of a run of the benchmark.

    Parameters
    ----------
    run : ClosedLoop
    coefficients : tuple of float
        Of an `EngineIteration`.
    rng : numpy.random.Generator
        Draws the lengths.

    Returns
    -------
    FirstTokens

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    Three rounds are simulated; the last two stand for the other nine. Left out: the client, the network, and the
    tokenizer.
    """
    arguments.record("run", run, ClosedLoop)
    arguments.record("rng", rng, np.random.Generator)
    count = SIMULATED_ROUNDS * run.users
    lengths = [
        rng.integers(max(int(SHORTEST * most), 1), most + 1, count) for most in (run.input_tokens, run.output_tokens)
    ]
    step = EngineIteration(deployment=run.deployment, coefficients=coefficients)
    made = simulate_closed_loop(lengths, policy_of(run), step, users=run.users)
    wait = made.first_token_time - made.arrival_time
    pace = (made.finish_time - made.first_token_time).sum() / (made.output_length - 1).sum()
    crowd, after = (float(part.mean()) for part in (wait[: run.users], wait[run.users :]))
    held = held_back(run, float(pace))
    return FirstTokens(crowd / ROUNDS + after * (1 - 1 / ROUNDS) + held, crowd, after, held, float(pace))
