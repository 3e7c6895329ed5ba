"""An offer: the rent over what the load limit lets through, and its range."""

from dataclasses import replace

import numpy as np
import pytest

from lib import engine_step, prices
from lib.batch_limit import batch_limit, within_targets
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware
from lib.model import model
from lib.offer import full_rates, offer
from lib.operating_point import replica

CHAT = traffic_of("azure-conversation")
PAIR = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=2)


def test_the_middle_is_rent_over_requests_and_the_ends_join_rent_and_speed():
    found, rent, law = offer(PAIR, CHAT), prices.rent("H100 SXM"), engine_step.law()
    tokens = CHAT.prompt_tokens + CHAT.output_tokens
    for cost, price, slower in (
        (found.low, rent.low, law.low), (found.middle, rent.middle, 1), (found.high, rent.high, law.high)
    ):  # fmt: skip
        _, rate = within_targets(replica(PAIR, CHAT, slower=slower), 0.05, 1.0)
        assert cost.blended == pytest.approx(2 * price / rate / tokens)
    assert found.low.output < found.middle.output < found.high.output


def test_the_limits_have_the_range_of_the_law_and_no_rent_in_them(monkeypatch):
    """By the slow and the fast engine, each searched anew; dearer machines leave them where they are."""
    found, law = offer(PAIR, CHAT), engine_step.law()
    for end, slower in enumerate((law.high, law.low)):
        allowed, rate = within_targets(replica(PAIR, CHAT, slower=slower), 0.05, 1.0)
        assert (found.slots_ends[end], found.rate_ends[end]) == (allowed.step_time.size, rate)
    assert found.slots_ends[0] < found.slots < found.slots_ends[1]
    dearer = tuple(replace(line, low=2 * line.low, high=3 * line.high) for line in prices.listings())
    monkeypatch.setattr(prices, "listings", lambda: dearer)
    again = offer(PAIR, CHAT)
    assert (again.slots_ends, again.rate_ends) == (found.slots_ends, found.rate_ends)
    assert again.middle.blended > found.middle.blended


def test_input_and_output_share_the_rent_as_they_share_the_machine():
    """A prompt takes its time whole; an output takes a share of each step it rides in, one of all slots."""
    found = offer(PAIR, CHAT)
    one = replica(PAIR, CHAT)
    allowed, _ = within_targets(one, 0.05, 1.0)
    slots = allowed.step_time.size
    riding = CHAT.output_tokens * allowed.decode_time[slots - 1] / slots
    of_input, of_output = found.middle.input * CHAT.prompt_tokens, found.middle.output * CHAT.output_tokens
    assert of_input / of_output == pytest.approx(allowed.prompt_time / riding)
    assert (found.slots, found.middle.blended * (CHAT.prompt_tokens + CHAT.output_tokens)) == (
        slots, pytest.approx(of_input + of_output),
    )  # fmt: skip


def test_a_tighter_target_costs_more_and_an_impossible_one_without_end():
    costs = [offer(PAIR, CHAT, time_per_token=target).middle.blended for target in (0.1, 0.05, 0.03)]
    assert costs == sorted(costs)
    assert np.isinf(offer(PAIR, CHAT, time_per_token=0.001).middle.blended)


def test_full_rates_are_those_of_full_slots_at_the_ends_of_the_law():
    law = engine_step.law()
    for slots in (1, 32, None):
        for rate, slower in zip(full_rates(PAIR, CHAT, slots), (law.high, 1.0, law.low), strict=True):
            one = replica(PAIR, CHAT, slower=slower)
            taken = batch_limit(one, 0.05).slots if slots is None else slots
            assert rate == pytest.approx(taken / one.step_time[taken - 1] / CHAT.output_tokens)


def test_who_is_too_slow_for_the_target_serves_nobody():
    slow = Deployment(hardware=hardware("T4"), model=model("Llama-3-8B"))
    assert full_rates(slow, CHAT) == (0.0, 0.0, 0.0)
