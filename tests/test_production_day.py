"""DeepSeek's day: its accounts to the dollar, the parts of the prediction by hand, its error as it is."""

import numpy as np
import pytest

from lib import production_day as day
from lib.production_day import published


def test_the_accounts_of_the_day_follow_from_its_rates():
    """Printed: 226.75 nodes on average, USD 87,072, USD 562,027, 545 %."""
    found = day.books(published("day-prefill-rate"), published("day-decode-rate"))
    assert found.prefill_nodes + found.decode_nodes == pytest.approx(published("day-nodes-mean"), rel=1e-3)
    assert found.cost == pytest.approx(published("day-cost"), rel=1e-3)
    assert found.revenue == pytest.approx(published("day-revenue"), rel=1e-3)
    assert found.margin == pytest.approx(published("day-margin"), rel=1e-3)


def test_the_exchange_is_that_of_the_makers_bound():
    """zhao2025insights, 2.3.2: 3 B x 32 x 9 copies x 7,168 over 50 GB/s is 123.9 us a layer (120.96 for 7K)."""
    one_layer = day._exchange(9) / 58
    assert 32 * one_layer == pytest.approx(123.86e-6, rel=1e-3)


def test_a_gpu_of_the_decode_unit_reads_its_share_of_the_weights():
    """Attention, 3 dense and 58 shared experts, head: 16.3e9; two experts of 44.04e6 in 58 layers: 5.1e9."""
    held, read = day._weights(2)
    assert read == pytest.approx(16.3e9 + 2 * 58 * 44.04e6, rel=0.01)
    assert held - read == 129_280 * 7168


def test_the_bound_on_the_step_by_hand():
    """141 caches of 350.6 MB and 21.4 GB of weights at 3.35 TB/s."""
    found = day.decode_rate()
    cache = 4989 * 61 * 576 * 2
    assert found.step[0] == pytest.approx((day._weights(2)[1] + found.batch[0] * cache) / 3.35e12, rel=1e-9)
    room = 0.9 * 8e10 - day._weights(2)[0]
    assert found.batch[0] == np.floor(room / cache)


def test_readers_get_the_middle_of_the_published_speed():
    """20 to 22 tokens a second: 21, so a node makes 8 x batch x 21."""
    found = day.decode_rate()
    assert found == day.decode_rate(21)
    assert found.rate == pytest.approx(tuple(8 * 21 * batch for batch in found.batch))


def test_what_lay_in_the_cache_counts_as_input_and_takes_no_time():
    """Printed: 342 of 608 billion tokens from the cache on disk, so 8 GPUs at the step's pace over .4375."""
    found = day.prefill_rate()
    assert found.rate == pytest.approx(tuple(8 / step / (1 - 342 / 608) for step in found.step))


def test_each_level_leaves_out_less_and_predicts_less():
    for found in (day.decode_rate(), day.prefill_rate()):
        assert found.rate[0] > found.rate[1] > found.rate[2] > 0


def test_faster_readers_share_a_node_with_fewer():
    slow, fast = day.decode_rate(20), day.decode_rate(22)
    assert slow.batch[1] > fast.batch[1]
    assert day.decode_rate(1e6).rate == (0, 0, 0)


def test_no_rate_of_the_day_enters_its_prediction(monkeypatch):
    """Another published rate, cost or node count leaves both predictions as they were."""
    before = day.decode_rate(), day.prefill_rate()
    plain = day.published
    hidden = {"day-prefill-rate", "day-decode-rate", "day-nodes-mean", "day-cost", "day-output", "day-gpu-price"}

    def spoiled(name):
        assert name not in hidden
        return plain(name)

    monkeypatch.setattr(day, "published", spoiled)
    assert (day.decode_rate(), day.prefill_rate()[0]) == (before[0], before[1][0])


def test_the_bounds_are_above_what_was_published():
    for found, name in ((day.decode_rate(), "day-decode-rate"), (day.prefill_rate(), "day-prefill-rate")):
        assert found.rate[0] > published(name)
