"""Which input moves the cost: each swing from the parts of the library that it rests on, the widest first."""

from dataclasses import replace

import pytest

from lib import engine_step, prices
from lib.batch_limit import within_targets
from lib.deployment import Deployment, traffic_of
from lib.hardware import hardware
from lib.model import model
from lib.offer import offer
from lib.operating_point import replica
from lib.sensitivity import Swing, swings

CHAT = traffic_of("azure-conversation")
SMALL = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-8B"), dtype="fp8")
LARGE = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=4)
FOUND = swings(SMALL, LARGE, CHAT)


def rate(deployment, slower=1.0, targets=(0.05, 1.0), traffic=CHAT):
    return within_targets(replica(deployment, traffic, slower=slower), *targets)[1]


def test_the_widest_comes_first():
    widths = [one.ratios[1] for one in FOUND.values()]
    assert widths == sorted(widths, reverse=True)
    assert next(iter(FOUND)) == "load, all to a tenth"


def test_a_tenth_of_the_load_costs_ten_times_and_a_rent_what_the_lists_say():
    rent = prices.rent("H100 SXM")
    assert FOUND["load, all to a tenth"] == Swing((1, 10), (1, 10), (1, 10))
    assert FOUND["rent, lowest to highest"].law == pytest.approx((rent.low / rent.middle, rent.high / rent.middle))


def test_a_larger_model_costs_what_its_offer_costs_more():
    """Offers at the median rent, four devices and all; at the ends of the law, the rates of both at that end."""
    dearer = offer(LARGE, CHAT).middle.blended / offer(SMALL, CHAT).middle.blended
    swing = FOUND["model, 8B to 70B"]
    assert swing.law == pytest.approx((1, dearer))
    assert swing.slow[1] == pytest.approx(4 * rate(SMALL, engine_step.law().high) / rate(LARGE, engine_step.law().high))
    assert swing.spans == (*swing.law, 1, max(swing.fast[1], swing.law[1], swing.slow[1]))
    assert swing.ratios == (min(swing.fast[1], dearer, swing.slow[1]), dearer, swing.spans[3])


def test_the_engine_swings_by_the_law_and_by_nothing_else():
    law = engine_step.law()
    ends = rate(SMALL) / rate(SMALL, law.low), rate(SMALL) / rate(SMALL, law.high)
    swing = FOUND["engine, fast to slow"]
    assert swing.law == pytest.approx(ends)
    assert swing == Swing(swing.law, swing.law, swing.law)


def test_targets_swing_by_the_load_that_they_leave():
    ends = rate(SMALL) / rate(SMALL, targets=(0.1, 1.0)), rate(SMALL) / rate(SMALL, targets=(0.02, 1.0))
    assert FOUND["target, 100 to 20 ms"].law == pytest.approx(ends)
    ends = rate(SMALL) / rate(SMALL, targets=(0.05, 10.0)), rate(SMALL) / rate(SMALL, targets=(0.05, 0.3))
    assert FOUND["pause, 10 to 0.3 s"].law == pytest.approx(ends)


def test_longer_outputs_cost_more_a_token_and_sixteen_bit_more_too():
    longer = replace(CHAT, output_tokens=4 * CHAT.output_tokens)
    tokens = (CHAT.prompt_tokens + CHAT.output_tokens) / (CHAT.prompt_tokens + 4 * CHAT.output_tokens)
    assert FOUND["outputs, 4 times as long"].law[1] == pytest.approx(rate(SMALL) / rate(SMALL, traffic=longer) * tokens)
    wide = rate(replace(SMALL, dtype="bf16"))
    assert FOUND["format, 8 to 16 bit"].law == pytest.approx((1, rate(SMALL) / wide))


def test_a_base_that_is_too_slow_is_refused():
    slow = Deployment(hardware=hardware("T4"), model=model("Llama-3-8B"))
    with pytest.raises(ValueError, match="base must keep its targets"):
        swings(slow, LARGE, CHAT)
