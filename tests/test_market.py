"""Rent or buy, and what a price list implies: by hand, and moved by the prices that they rest on."""

import math
from dataclasses import replace

import pytest

from lib import market, prices
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware
from lib.model import model
from lib.offer import offer

CHAT = traffic_of("azure-conversation")


def choice(name):
    return next(one for one in market.choices(CHAT) if one.model == name)


def test_renting_pays_from_the_rent_over_the_bill():
    """DeepInfra's Llama-3-70B, 0.25 in and 0.36 out a million, against 4 H100 at 2.69, 3.99 and 12.29 an hour."""
    bill = (0.25 * CHAT.prompt_tokens + 0.36 * CHAT.output_tokens) / 1e6
    found = choice("Llama-3-70B")
    assert found.break_even == pytest.approx([4 * rent / 3600 / bill for rent in (2.69, 3.99, 12.29)])
    made = offer(Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=4), CHAT)
    assert found.largest == (made.rate_ends[0], made.rate, made.rate_ends[1])


def test_the_share_joins_the_best_ends_and_the_worst():
    found = choice("Llama-3-8B")
    assert found.share == pytest.approx((
        found.break_even[0] / found.largest[2], found.break_even[1] / found.largest[1],
        found.break_even[2] / found.largest[0],
    ))  # fmt: skip


def test_what_cannot_keep_the_targets_never_pays():
    """405B on 8 H100 with the slow end of the law: not even one reader is served in time."""
    found = choice("Llama-3.1-405B")
    assert found.largest[0] == 0
    assert found.share[2] == math.inf


def test_a_list_implies_requests_that_pay_for_eight_machines():
    """Claude Opus 5.5: 4 in and 20 out a million; Flash has a range, and its dear end goes with the cheap rent."""
    found = {one.service: one for one in market.implied(CHAT)}
    assert len(found) == 9
    bill = (4 * CHAT.prompt_tokens + 20 * CHAT.output_tokens) / 1e6
    rates = [8 * rent / 3600 / bill for rent in (2.69, 3.99, 12.29)]
    assert found["Claude Opus 5.5"].rates == pytest.approx(rates)
    dear, cheap = ((x * CHAT.prompt_tokens + y * CHAT.output_tokens) / 1e6 for x, y in ((0.3, 1.2), (0.15, 0.6)))
    flash = found["DeepSeek-V4.1-Flash"].rates
    assert (flash[0], flash[2]) == pytest.approx((8 * 2.69 / 3600 / dear, 8 * 12.29 / 3600 / cheap))


def test_one_list_changed_moves_its_own_line_and_no_other(monkeypatch):
    before = {one.service: one.rates for one in market.implied(CHAT)}
    changed = tuple(
        replace(line, low=2 * line.low, high=2 * line.high) if line.item == "GPT-6 Sol" else line
        for line in prices.listings()
    )
    monkeypatch.setattr(prices, "listings", lambda: changed)
    after = {one.service: one.rates for one in market.implied(CHAT)}
    assert {name for name in before if before[name] != after[name]} == {"GPT-6 Sol"}
    assert after["GPT-6 Sol"] == pytest.approx([rate / 2 for rate in before["GPT-6 Sol"]])
