"""The batch limit: closed form, scan and simulation agree; the load limit keeps both targets, the budget the gap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import processor_sharing
from lib.batch_limit import (
    BINDS,
    batch_limit,
    closed_load_limit,
    load_limit,
    slots_within,
    token_budget,
    within_targets,
)
from lib.deployment import Deployment, Traffic, traffic_of
from lib.engine_step import law
from lib.hardware import hardware
from lib.model import model
from lib.occupancy import capped_occupancy
from lib.operating_point import Replica, at_load, bound_replica, capped, full_rate, good_share, replica
from lib.queues import served_by_steps

CHAT = traffic_of("azure-conversation")
H100 = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-8B"), dtype="fp8")
EIGHT = replica(H100, CHAT)


def line(slots=200, fixed=0.02, marginal=1e-3, output=100.0, prompt=0.01):
    """A replica whose step is a line, with exponential outputs."""
    step = fixed + marginal * np.arange(1, slots + 1)
    traffic = Traffic(prompt_tokens=50, output_tokens=output, output_cv2=1)
    return Replica(traffic=traffic, step_time=step, decode_time=0.9 * step, prompt_time=prompt)


def test_on_a_line_the_scan_is_the_closed_form():
    """(50 - 20) / 1 = 30 residents; 220 ms would hold 200, where memory ends."""
    assert batch_limit(line(), 0.05)[:2] == (30, BINDS[0])
    assert batch_limit(line(), 0.05).closed_form == 30
    assert batch_limit(line(), 0.5)[:2] == (200, BINDS[1])
    assert batch_limit(line(), 0.5).closed_form == 480
    assert batch_limit(line(), 0.02)[:2] == (0, BINDS[2])
    assert batch_limit(line(), np.inf).slots == 200


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(0, 10))
def test_many_targets_get_what_a_scan_gives_even_where_the_step_falls(steps, target):
    """The last batch whose step keeps the target, by a loop; a step need not rise everywhere."""
    one = Replica(traffic=CHAT, step_time=np.array(steps, float), decode_time=np.ones(len(steps)), prompt_time=1.0)
    scanned = max((n for n, step in enumerate(steps, start=1) if step <= target + 0.5), default=0)
    assert slots_within(one, [target + 0.5, np.inf]).tolist() == [scanned, len(steps)]


def test_one_more_resident_would_break_the_target():
    limit = batch_limit(EIGHT, 0.05)
    assert EIGHT.step_time[limit.slots - 1] <= 0.05 < EIGHT.step_time[limit.slots]
    assert limit.closed_form <= limit.slots, "the chord is on the safe side of a convex step"


def test_the_closed_load_limit_is_where_the_negative_binomial_meets_the_target():
    """TPOT = t(1) / (1 - lam L t_1): at that rate it is the target."""
    rate = closed_load_limit(line(), 0.05)
    assert rate == pytest.approx((1 - 0.021 / 0.05) / (100 * 1e-3))
    assert processor_sharing.uncapped_occupancy(rate, 100, 0.02, 1e-3).time_per_token == pytest.approx(0.05)


def test_the_load_limit_is_the_closed_form_when_no_cap_and_no_wait_bind():
    assert load_limit(line(slots=2000), 0.05, np.inf) == pytest.approx(closed_load_limit(line(), 0.05), rel=1e-6)


@pytest.mark.parametrize("targets", [(0.05, 1.0), (0.05, 0.2), (0.03, np.inf), (np.inf, 0.5)])
def test_at_the_load_limit_a_target_is_met_and_just_above_it_is_missed(targets):
    one = capped(EIGHT, 400)
    rate = load_limit(one, *targets)
    point, above = at_load(one, rate), at_load(one, rate * 1.001)
    assert point.time_per_token <= targets[0]
    assert point.first_token_time <= targets[1]
    assert above.time_per_token > targets[0] or above.first_token_time > targets[1]


def test_the_limits_by_simulation_are_those_of_the_closed_form():
    """Step by step, exponential outputs rounded up, a line without a cap: bisection finds the rate within 4 %."""
    rng = np.random.default_rng(7)
    gaps, lengths = rng.exponential(size=6000), np.ceil(rng.exponential(100.0, 6000))

    def mean_time_per_token(rate):
        arrivals = np.cumsum(gaps) / rate
        served = served_by_steps(arrivals, lengths, lambda size, _: 0.02 + 1e-3 * size)
        stay = served.end_time - served.start_time
        return stay[1000:].sum() / lengths[1000:].sum()

    low, high = 1.0, 9.0
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_time_per_token(middle) <= 0.05 else (low, middle)
    assert low == pytest.approx(closed_load_limit(line(), 0.05), rel=0.04)


def test_a_step_of_the_whole_budget_fills_the_gap():
    slots = 100
    budget, needed = token_budget(EIGHT, slots, 0.1)
    each = EIGHT.prompt_time / CHAT.prompt_tokens
    assert EIGHT.decode_time[slots - 1] + (budget - slots) * each <= 0.1
    assert EIGHT.decode_time[slots - 1] + (budget + 1 - slots) * each > 0.1
    assert needed == pytest.approx(slots * CHAT.prompt_tokens / CHAT.output_tokens)
    assert token_budget(EIGHT, slots, 1e-4)[0] == 0


def test_the_bound_is_never_slower_than_the_law_and_both_rise():
    bound = bound_replica(H100, CHAT)
    assert np.all(bound.step_time <= EIGHT.step_time)
    assert bound.step_time.size == EIGHT.step_time.size
    for one in (bound, EIGHT):
        assert np.all(np.diff(one.step_time) > 0)
    slow = replica(H100, CHAT, slower=law().high)
    assert slow.step_time == pytest.approx(law().high * EIGHT.step_time)


def test_a_model_that_does_not_fit_has_no_replica():
    big = Deployment(hardware=hardware("RTX 4090"), model=model("Llama-3-70B"))
    assert replica(big, CHAT) is None
    assert bound_replica(big, CHAT) is None


def test_a_single_slot_is_a_replica_too():
    assert replica(H100, CHAT, slots=1).step_time.size == 1


def test_little_holds_at_every_load():
    """Residents are arrivals times output times pace, whatever the load."""
    rates = np.linspace(1, 0.95 * full_rate(EIGHT), 5)
    point = at_load(EIGHT, rates)
    assert point.resident == pytest.approx(rates * CHAT.output_tokens * point.time_per_token)


def test_beyond_the_full_rate_the_queue_has_no_end():
    assert np.isinf(at_load(EIGHT, 1.01 * full_rate(EIGHT)).first_token_time)


def test_too_slow_from_the_start_is_no_load_at_all():
    assert load_limit(EIGHT, 1e-3, np.inf) == 0
    assert within_targets(EIGHT, 1e-3, 1.0) == (None, 0.0)


def test_within_targets_caps_the_slots_first():
    allowed, rate = within_targets(EIGHT, 0.05, 1.0)
    assert allowed.step_time.size == batch_limit(EIGHT, 0.05).slots
    assert 0 < rate < full_rate(allowed)


def test_good_requests_are_those_whose_wait_leaves_time():
    """Nearly all at light load, none when the prompt alone takes longer than the target."""
    one, rate = within_targets(EIGHT, 0.05, 1.0)
    assert good_share(one, 0.5 * rate, 1.0) == pytest.approx(1, abs=1e-6)
    assert good_share(one, 1.02 * full_rate(one), 1.0) == 0
    assert good_share(one, rate, 1e-4) == 0
    # A target that leaves no time to wait is met by those who find a slot free.
    busy = 0.998 * full_rate(one)
    found = capped_occupancy(busy, CHAT.output_tokens, one.step_time, output_cv2=CHAT.output_cv2)
    point = at_load(one, busy)
    free = good_share(one, busy, float(point.first_token_time - point.wait) * (1 + 1e-9))
    assert 0.1 < free < 0.95
    assert free == pytest.approx(1 - float(found.wait_probability), rel=1e-3)
    shares = good_share(one, np.linspace(0.9, 0.999, 6) * full_rate(one), 1.0)
    assert np.all(np.diff(shares) < 0)
