"""What requests ask of a replica in tokens: of its steps, and of its memory.

Rates are 1/s, times s, lengths and memory tokens. A request of P prompt and L output
tokens holds P + l tokens of cache while it makes its l-th.
"""

import numpy as np

from lib import arguments
from lib.domains import at_least, checked


def token_slots(prompt_length, output_length):
    r"""Return the memory a request takes over its life, in tokens held times steps.

    Parameters
    ----------
    prompt_length : array_like
        Tokens, at least 0.
    output_length : array_like
        Tokens, above 0; one per step.

    Returns
    -------
    ndarray
        Tokens times steps.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: w = P L + \frac{L (L + 1)}{2}

    Source: dong2026 (arXiv:2604.11001; abstract and notes read).
    """
    prompt_length, output_length = checked(prompt_length=prompt_length, output_length=output_length)
    return prompt_length * output_length + output_length * (output_length + 1) / 2


def useful_share(prompt_length, output_length, reserved):
    r"""Return the share of reserved cache memory that holds tokens, over time.

    Parameters
    ----------
    prompt_length : array_like, shape (n,)
        Tokens, at least 0.
    output_length : array_like, shape (n,)
        Tokens, above 0; one per step.
    reserved : array_like, shape (n,)
        Tokens that are set aside for each request from its first step to its last, at least prompt and output.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \frac{\sum_i w_i}{\sum_i R_i L_i}

    with w from `token_slots` [derived]. Gaps between reservations are left out: an allocator adds them.
    """
    held = token_slots(prompt_length, output_length)
    prompt_length, output_length = checked(prompt_length=prompt_length, output_length=output_length)
    prompt_length, output_length, reserved = arguments.together(
        prompt_length=prompt_length, output_length=output_length,
        reserved=arguments.array("reserved", reserved, above=0))
    at_least("reserved", reserved, "prompt_length and output_length", prompt_length + output_length)
    return float(np.sum(held) / np.sum(reserved * output_length))


def memory_limited_rate(memory_tokens, step_time, token_slots):
    r"""Return the arrival rate that fills the memory of a replica.

    Parameters
    ----------
    memory_tokens : array_like
        Cache the replica can hold, tokens, above 0.
    step_time : array_like
        Mean time of a step, s, above 0.
    token_slots : array_like
        Mean of `token_slots` over the requests, above 0.

    Returns
    -------
    ndarray
        1/s. Above it no scheduler is stable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \lambda_{\max} = \frac{M}{\bar t\, E[w]}

    Necessary, :math:`\lambda t E[w] \le M`. Sufficient below :math:`(1 - \delta) \lambda_{\max}` under
    work-conserving policies, with :math:`\delta` the largest request over the memory; per-class budgets that
    exceed the arrivals per step also suffice. The step time must be measured or iterated (`fluid_step_time`).
    Source: nie2026 (arXiv:2605.04595), dong2026 (arXiv:2604.11001); abstracts and notes read.
    """
    memory_tokens, step_time, token_slots = checked(
        memory_tokens=memory_tokens, step_time=step_time, token_slots=token_slots)
    return memory_tokens / (step_time * token_slots)


def work_conserving_rate(tokens, step_time, prompt_length, output_length):
    r"""Return the arrival rate below which every work-conserving scheduler is stable.

    Parameters
    ----------
    tokens : array_like
        Most tokens a step processes, prompt and output together, whole, at least 1.
    step_time : array_like
        Time of a step of so many tokens, s, above 0.
    prompt_length, output_length : array_like
        Mean tokens of a request; `prompt_length` at least 0, `output_length` above 0.

    Returns
    -------
    ndarray
        1/s. Above it every scheduler is unstable.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: \lambda^* = \frac{b}{t_b (m_p + m_d)}

    True for a single replica, whose memory does not bind; cyclic routing between replicas can be unstable
    below it. Source: dai2025 (arXiv:2504.07347), theorem 2 (abstract and a public
    reproduction read).
    """
    tokens, step_time, prompt_length, output_length = checked(
        tokens=tokens, step_time=step_time, prompt_length=prompt_length, output_length=output_length)
    return tokens / step_time / (prompt_length + output_length)


def staircase_step_time(tokens, fixed_time, tile_time, tile):
    r"""Return the time of a step whose arithmetic comes in tiles.

    Parameters
    ----------
    tokens : array_like
        Tokens in the step, whole, at least 1.
    fixed_time, tile_time : array_like
        Time of any step, and of each tile begun, s, at least 0.
    tile : array_like
        Tokens in a tile, whole, at least 1.

    Returns
    -------
    ndarray
        Seconds.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: t_b = c + a \lceil b / b_0 \rceil

    Source: dai2025 (arXiv:2504.07347; read in a public reproduction); their fit is
    11.28 + 35.47 ceil(b / 128) ms.
    """
    tokens, fixed_time, tile_time, tile = checked(
        tokens=tokens, fixed_time=fixed_time, tile_time=tile_time, tile=tile)
    return fixed_time + tile_time * np.ceil(tokens / tile)


def fluid_step_time(token_load, fixed_time, marginal_time):
    r"""Return the step time at which a replica's resident tokens sustain themselves.

    Parameters
    ----------
    token_load : array_like
        Arrival rate times `token_slots`, summed over kinds of request, at least 0.
    fixed_time, marginal_time : array_like
        Time of a step, and time each resident token adds, s, at least 0.

    Returns
    -------
    ndarray
        Seconds; `inf` when no step time does. Times `token_load` it is the resident tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: D = \frac{d_0}{1 - d_1 \sum_j \lambda_j w_j}, \quad d_1 \sum_j \lambda_j w_j < 1

    A fluid: no chance, no prefill time. Source: the model of ao2025 (arXiv:2504.11320; abstract read), [derived].
    """
    token_load, fixed_time, marginal_time = checked(
        token_load=token_load, fixed_time=fixed_time, marginal_time=marginal_time)
    room = 1 - marginal_time * token_load
    return np.where(room > 0, fixed_time / np.where(room > 0, room, 1.0), np.inf)


def mean_resident_context(prompt_length, output_length, output_second_moment):
    r"""Return the tokens of cache that a resident request holds, on average over time.

    Parameters
    ----------
    prompt_length : array_like
        Tokens, at least 0; its mean, if independent of the output.
    output_length, output_second_moment : array_like
        Mean, tokens, and second moment, tokens^2, of the output; the latter may be infinite.

    Returns
    -------
    ndarray
        Tokens.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or no law has such moments.

    Notes
    -----
    .. math:: \bar S = E[P] + \frac{E[L^2] - E[L]}{2 E[L]}

    A step that reads the cache costs each resident :math:`t_c + \bar S t_{kv}`: use that as the marginal time
    of `lib.processor_sharing`. Long outputs count twice, so the length law matters. Source: Campbell; [derived].
    """
    prompt_length, output_length, output_second_moment = checked(
        prompt_length=prompt_length, output_length=output_length, output_second_moment=output_second_moment)
    at_least("output_second_moment", output_second_moment, "output_length and its square",
             np.maximum(output_length, output_length**2))
    return prompt_length + (output_second_moment - output_length) / (2 * output_length)


def resident_tokens(arrival_rate, token_time, prompt_length, output_moments):
    r"""Return mean and variance of the cache held by all residents, when none is turned away.

    Parameters
    ----------
    arrival_rate, token_time, prompt_length : array_like
        Poisson arrivals, 1/s, time per output token, s, both above 0, and tokens of the (fixed) prompt.
    output_moments : array_like, shape (3,)
        First three moments of the output length: tokens, tokens^2, tokens^3; the last two may be infinite.

    Returns
    -------
    tuple of ndarray
        Tokens, and tokens^2.

    Raises
    ------
    ValueError
        If an argument leaves its domain, or no law has such moments.

    Notes
    -----
    .. math:: \lambda d \Big(P E[L] + \frac{E[L^2]}{2}\Big), \qquad
        \lambda d \Big(P^2 E[L] + P E[L^2] + \frac{E[L^3]}{3}\Big)

    Residents are M/G/inf, so always stable; cache grows at a constant pace of one token per `token_time`.
    Provision the mean plus z standard deviations; Little's law gives the mean only. Source: Campbell's
    theorem, kingman1993.
    """
    arrival_rate, token_time, prompt_length = checked(
        arrival_rate=arrival_rate, token_time=token_time, prompt_length=prompt_length)
    mean, second, third = _output_moments(output_moments)
    pace = arrival_rate * token_time
    share = np.where(prompt_length > 0, second, 0) * prompt_length  # 0 tokens of an infinite moment are 0
    return (pace * (prompt_length * mean + second / 2),
            pace * (prompt_length**2 * mean + share + third / 3))


def _output_moments(output_moments):
    moments = arguments.array("output_moments", output_moments, above=0, infinite=True)
    if moments.shape != (3,):
        raise ValueError(f"output_moments must have shape (3,), got {moments.shape}")
    mean, second, third = arguments.number("output_moments[0]", moments[0]), moments[1], moments[2]
    at_least("output_moments[1]", moments[1], "output_moments[0] squared", mean**2)
    at_least("output_moments[2]", moments[2], "output_moments[1] squared over output_moments[0]", second**2 / mean)
    return mean, second, third


def mean_concurrency(arrival_rate, first_token_time, output_length, time_per_token):
    r"""Return the mean number of requests in flight.

    Parameters
    ----------
    arrival_rate, output_length, time_per_token : array_like
        Arrivals, 1/s, mean output, tokens, and mean time per output token, s, all above 0.
    first_token_time : array_like
        Mean time to the first token, s, above 0.

    Returns
    -------
    ndarray
        Requests.

    Raises
    ------
    ValueError
        If an argument leaves its domain.

    Notes
    -----
    .. math:: N = \lambda (\text{TTFT} + E[L]\, \text{TPOT})

    Holds for averages of any stable system, whatever its policy; says nothing about percentiles. The
    mean of tokens times pace is taken as the product of the means. Source: little1961.
    """
    arrival_rate, first_token_time, output_length, time_per_token = checked(
        arrival_rate=arrival_rate, first_token_time=first_token_time, output_length=output_length,
        time_per_token=time_per_token)
    return arrival_rate * (first_token_time + output_length * time_per_token)
