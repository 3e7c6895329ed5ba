"""Public first tokens: the record is what the code gives, and who left what out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import closed_loop, public_first_tokens
from lib.calibrated_step import CalibratedStep
from lib.measured import table
from lib.replica import StepLoad
from scripts import predict_first_tokens as script


def rows(**where):
    """Return the places of the rows of the record that are so."""
    found = table("served_first_tokens")
    return np.flatnonzero(np.all([found[name] == wanted for name, wanted in where.items()], axis=0))


def test_every_public_closed_loop_is_in_the_record_once():
    found, public = table("served_first_tokens"), script.runs("ttft")
    loops = ~np.isin(found["regime"], public_first_tokens.ALONE)
    assert_allclose(found["time"][loops], public["value"], rtol=1e-4)
    names = [one.name for one in public_first_tokens.by_regime()]
    assert names == [*public_first_tokens.ALONE, *closed_loop.REGIMES]
    assert sum(len(one.time) for one in public_first_tokens.by_regime()[2:]) == len(public["value"])


def test_a_row_of_the_record_is_what_the_code_gives():
    """With the factor of the record; the fit of the step leaves the accelerator out."""
    shape = {"concurrency": 4, "input_tokens": 1024, "output_tokens": 1024}
    (at,) = rows(accelerator="H200 SXM", engine="vLLM", model="Llama-3-70B", tensor_parallel=8, **shape)
    found, paces = table("served_first_tokens"), script.runs("tpot")
    rest = paces["accelerator"] != "H200 SXM"
    step = script.serving.fitted(script.serving.terms(paces)[rest], paces["value"][rest], pull=script.PULL)
    made = script.simulated(at, script._with_factor(step, found["prompt_factor"][at]))
    assert_allclose([made.whole, made.crowd], [found["predicted"][at], found["crowd"][at]], rtol=1e-3)
    assert_allclose(script.simulated(at, step).whole, found["step_alone"][at], rtol=1e-3)


def test_no_first_token_comes_before_its_prompt_can_be_read():
    found = table("served_first_tokens")
    loops = ~np.isnan(found["bound"])
    assert loops.sum() == len(script.runs("ttft")["value"])
    assert np.all(found["time"][loops] > found["bound"][loops])


def test_leaving_the_accelerator_out_costs_more_than_leaving_the_shape_out():
    regimes = {one.name: one for one in public_first_tokens.by_regime()}
    for name in closed_loop.REGIMES[:4]:
        one = regimes[name]
        away, home = (np.median(np.abs(made / one.time - 1)) for made in (one.predicted, one.at_home))
        assert home < away + 0.02
        assert not np.isnan(one.at_home).any()
    assert np.isnan(regimes["client not documented"].at_home).all()


def test_only_the_least_load_of_the_longest_prompts_was_seen():
    seen = {one.name for one in public_first_tokens.by_regime() if one.seen.any()}
    assert seen == {"few users, long prompts"}
    found = table("served_first_tokens")
    for one in public_first_tokens.by_regime():
        mine = found["regime"] == one.name
        least = (found["concurrency"][mine] == 4) & (found["input_tokens"][mine] == 8192)
        assert one.seen.tolist() == least.tolist()


def test_telling_tensorrt_llm_to_gather_is_in_its_first_tokens():
    """On H200 nearly all runs are longer than the model without the rule, and nearer with it."""
    found = table("served_first_tokens")
    told = (found["regime"] == "told to gather") & (found["accelerator"] == "H200 SXM")
    without = (found["predicted"] - found["held_back"])[told]
    assert np.mean(found["time"][told] > without) > 0.9
    miss = np.abs(np.log(np.array([found["predicted"][told], without]) / found["time"][told]))
    assert np.median(miss[0]) < np.median(miss[1]) / 2


def test_prefills_are_on_the_fast_side_since_engines_do_more_than_kernels():
    made = public_first_tokens.prefills()
    assert np.median(made.predicted / made.time) < 1
    assert made.group.sum() > 50
    assert made.time.shape == made.predicted.shape == made.group.shape
    first = next(script.prefills())
    assert float(first["predicted"]) in made.predicted
    step = CalibratedStep(accelerator=first["accelerator"], model=first["model"], devices=int(first["tensor_parallel"]))
    one, two = (public_first_tokens.summed_kernels(step, size, 256) for size in (1, 2))
    assert one < two < 2 * one


def test_a_prefill_is_one_iteration_of_whole_prompts(monkeypatch):
    """Three prompts of 256 tokens, none in a cache: token 1 sees 1, token 256 sees 256."""
    step = CalibratedStep(accelerator="A100 SXM 80GB", model="Llama-3-8B")
    monkeypatch.setattr(CalibratedStep, "__call__", lambda self, load: load)
    expected = StepLoad(0, 0, 3 * 256, 3 * sum(range(1, 257)), ((256, 0),) * 3)
    assert public_first_tokens.summed_kernels(step, 3, 256) == expected
    assert public_first_tokens.summed_kernels(step, 1, 1) == StepLoad(0, 0, 1, 1, ((1, 0),))
    for bad in ({"batch": 0}, {"prompt_tokens": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            public_first_tokens.summed_kernels(step, **{"batch": 1, "prompt_tokens": 1} | bad)


def test_a_factor_is_found_again_where_it_was_put_in(monkeypatch):
    """First tokens made with a known speed of prompts: the fit finds it."""
    public = dict(script.runs("ttft"))
    least = (public["engine"] == "vLLM") & (public["accelerator"] == "H200 SXM") & (public["tensor_parallel"] == 8)
    shape = np.all([public[name] == wanted for name, wanted in script.LEAST_LOAD.items()], axis=0)
    places = np.flatnonzero(least & shape)
    step = np.array(script.serving.TYPICAL)
    made = public["value"].copy()
    for at in places:
        made[at] = script.simulated(at, script._with_factor(step, 2.5)).whole
    monkeypatch.setattr(script, "runs", lambda quantity: public | {"value": made})
    monkeypatch.setattr(script, "FACTORS", np.array([1.5, 2.5, 3.5]))
    assert script.prompt_factor(step, least) == pytest.approx(2.5)
