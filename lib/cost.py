"""From seconds to money: what a token costs on a rented machine, and what it would cost to buy it.

Rents are USD/s, rates 1/s, costs USD per token. A machine is paid by the hour, busy or
not: so cost follows from what it is given to do, not from what it could do.
"""

from typing import NamedTuple

import numpy as np

from lib import arguments
from lib.deployment import Traffic


class TokenCost(NamedTuple):
    """What a token costs, USD.

    Attributes
    ----------
    input, output : ndarray
        Each kind bears the share of the rent that its work has in the busy time.
    blended : ndarray
        Rent over all tokens, input and output alike.
    """

    input: np.ndarray
    output: np.ndarray
    blended: np.ndarray


def cost_per_token(price_rate, token_rate, *, utilisation=1.0):
    r"""Return what a token costs on a machine that makes `token_rate` when it is busy.

    Parameters
    ----------
    price_rate : array_like
        Rent, USD/s, at least 0.
    token_rate : array_like
        Tokens per second while busy, above 0.
    utilisation : array_like
        Share of the rented time in which it is busy, above 0, at most 1.

    Returns
    -------
    ndarray
        USD per token.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: c = \frac{\pi}{u X}
    """
    price_rate = arguments.array("price_rate", price_rate, least=0)
    token_rate = arguments.array("token_rate", token_rate, above=0)
    utilisation = arguments.array("utilisation", utilisation, above=0, most=1)
    arguments.together(price_rate=price_rate, token_rate=token_rate, utilisation=utilisation)
    return price_rate / (utilisation * token_rate)


def token_costs(price_rate, arrival_rate, traffic, prompt_time, output_time):
    r"""Return what input and output tokens cost at a load, rent divided by work.

    Parameters
    ----------
    price_rate : array_like
        Rent of the replica, USD/s, at least 0.
    arrival_rate : array_like
        Requests that it serves, 1/s, above 0.
    traffic : Traffic
    prompt_time : array_like
        Machine time that the prompt of a request takes, s, above 0.
    output_time : array_like
        Machine time that its output takes: its share of the steps it rides in, s, above 0.

    Returns
    -------
    TokenCost

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    A request bears :math:`\pi / \lambda`, idle time included. Of that, input bears
    :math:`\tau / (\tau + \delta)` and output the rest, with :math:`\tau` and :math:`\delta` the two
    times. Another division is as good; the sum is not a matter of taste.
    """
    arguments.record("traffic", traffic, Traffic)
    price_rate = arguments.array("price_rate", price_rate, least=0)
    arrival_rate = arguments.array("arrival_rate", arrival_rate, above=0)
    prompt_time = arguments.array("prompt_time", prompt_time, above=0)
    output_time = arguments.array("output_time", output_time, above=0)
    arguments.together(
        price_rate=price_rate, arrival_rate=arrival_rate, prompt_time=prompt_time, output_time=output_time
    )
    request = price_rate / arrival_rate
    share = prompt_time / (prompt_time + output_time)
    return TokenCost(
        request * share / traffic.prompt_tokens, request * (1 - share) / traffic.output_tokens,
        request / (traffic.prompt_tokens + traffic.output_tokens),
    )  # fmt: skip


def request_price(traffic, input_price, output_price, *, cached_price=None, cached_share=0.0):
    """Return what an API charges for the mean request.

    Parameters
    ----------
    traffic : Traffic
    input_price, output_price : array_like
        USD per token, at least 0.
    cached_price : array_like, optional
        Of input tokens that the seller had in its cache; as `input_price` if left out.
    cached_share : float
        Share of the input tokens that it had, from 0 to 1.

    Returns
    -------
    ndarray
        USD.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arguments.record("traffic", traffic, Traffic)
    input_price = arguments.array("input_price", input_price, least=0)
    output_price = arguments.array("output_price", output_price, least=0)
    cached_price = input_price if cached_price is None else arguments.array("cached_price", cached_price, least=0)
    cached_share = arguments.number("cached_share", cached_share, least=0, most=1)
    arguments.together(input_price=input_price, output_price=output_price, cached_price=cached_price)
    each = (1 - cached_share) * input_price + cached_share * cached_price
    return traffic.prompt_tokens * each + traffic.output_tokens * output_price


def break_even_rate(price_rate, request_price):
    r"""Return the arrival rate at which a rented machine costs what an API would charge for the same requests.

    Parameters
    ----------
    price_rate : array_like
        Rent, USD/s, above 0.
    request_price : array_like
        From `request_price`, USD, above 0.

    Returns
    -------
    ndarray
        Requests per second. Above it renting is cheaper, if the machine can serve so many.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    .. math:: \lambda^* = \frac{\pi}{P p_{in} + L p_{out}}
    """
    price_rate = arguments.array("price_rate", price_rate, above=0)
    request_price = arguments.array("request_price", request_price, above=0)
    arguments.together(price_rate=price_rate, request_price=request_price)
    return price_rate / request_price


def goodput_per_dollar(arrival_rate, good_share, price_rate):
    """Return the requests served within their targets for a dollar.

    Parameters
    ----------
    arrival_rate : array_like
        1/s, above 0.
    good_share : array_like
        Share of the requests that meet their targets, from 0 to 1.
    price_rate : array_like
        USD/s, above 0.

    Returns
    -------
    ndarray
        Requests per USD.

    Raises
    ------
    ValueError
        If an argument breaks its rule.
    """
    arrival_rate = arguments.array("arrival_rate", arrival_rate, above=0)
    good_share = arguments.array("good_share", good_share, least=0, most=1)
    price_rate = arguments.array("price_rate", price_rate, above=0)
    arguments.together(arrival_rate=arrival_rate, good_share=good_share, price_rate=price_rate)
    return arrival_rate * good_share / price_rate


def affine_step(step_time):
    r"""Return fixed and marginal time of the line that a list of step times stays below.

    Parameters
    ----------
    step_time : array_like, shape (b,)
        Of 1..b residents, s, above 0 and not falling.

    Returns
    -------
    tuple of float
        ``fixed_time`` and ``marginal_time`` of `lib.batch_law`, s: the chord from 1 to b residents.

    Raises
    ------
    ValueError
        If an argument breaks its rule.

    Notes
    -----
    The law of engines is convex in the batch for a dense model, so the chord lies above it and what is
    derived from the chord is on the safe side. Experts make it concave at first: there the chord lies below.
    """
    times = arguments.array("step_time", step_time, above=0)
    if times.ndim != 1:
        raise ValueError(f"step_time must have one axis, got shape {times.shape}")
    if np.any(np.diff(times) < 0):
        raise ValueError("step_time must not fall, got a larger batch that is faster")
    slope = (times[-1] - times[0]) / max(times.size - 1, 1)
    return float(times[0] - slope), float(slope)
