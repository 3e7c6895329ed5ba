"""One iteration of a running engine agrees with the law of steps, term by term."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import engine_step
from lib.deployment import Deployment, scales
from lib.engine_iteration import EngineIteration
from lib.hardware import hardware
from lib.model import model
from lib.replica import StepLoad

SERVED = Deployment(hardware=hardware("H100 SXM"), model=model("Llama-3-70B"), dtype="fp8", devices=4)
LAW = (1e-5, 2e-5, 1.4, 1.7, 2.0, 1.9, 1.3, 3e-5)
STEP = EngineIteration(deployment=SERVED, coefficients=LAW)


def test_decoding_alone_is_the_law_of_the_step():
    for batch, context in ((1, 100), (16, 3000), (300, 1000)):
        expected = engine_step.decode_time(scales(SERVED), batch, context, LAW)
        assert_allclose(STEP(StepLoad(batch, batch * context, 0, 0.0, ())), expected, rtol=1e-12)


def test_a_prompt_adds_what_the_law_says_of_it():
    tokens = 1500
    pairs = tokens * (tokens + 1) / 2
    beside = STEP(StepLoad(8, 8000, tokens, pairs, ((tokens, 0),))) - STEP(StepLoad(8, 8000, 0, 0.0, ()))
    assert_allclose(beside, engine_step.prompt_time(scales(SERVED), tokens, LAW), rtol=1e-9)


def test_a_prompt_alone_still_streams_the_weights():
    """By hand: 70.6 GB of 8-bit weights over 4 x 3.35 TB/s, times 1.4, is the least that it takes."""
    alone = STEP(StepLoad(0, 0, 1, 1.0, ((1, 0),)))
    assert alone > 1.4 * 69e9 / (4 * 3.35e12)


def test_more_devices_share_the_work_and_add_host_time():
    one = EngineIteration(deployment=replace(SERVED, devices=1), coefficients=(1e-5, 2e-5, *[0.0] * 6))
    eight = EngineIteration(deployment=replace(SERVED, devices=8), coefficients=(1e-5, 2e-5, *[0.0] * 6))
    load = StepLoad(1, 10, 0, 0.0, ())
    assert_allclose([one(load), eight(load)], [80 * 1e-5, 80 * (1e-5 + 3 * 2e-5)])


@pytest.mark.parametrize("name", ["Mixtral-8x7B", "gpt-oss-20b"])
def test_models_with_experts_or_windows_are_refused(name):
    with pytest.raises(ValueError, match="deployment must serve a dense model that attends to its whole context"):
        EngineIteration(deployment=replace(SERVED, model=model(name), devices=1), coefficients=LAW)


@pytest.mark.parametrize("bad", [(1.0,), (0.0, *LAW[1:]), (*LAW[:7], np.nan)])
def test_coefficients_must_be_those_of_the_law(bad):
    with pytest.raises(ValueError, match="coefficients"):
        EngineIteration(deployment=SERVED, coefficients=bad)
