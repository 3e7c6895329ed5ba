import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import spearmanr

from lib.arrivals import ArrivalLaw
from lib.lengths import WORKLOADS, LengthLaw
from lib.measured import table
from lib.trace import arrival_statistics
from lib.workload import Workload, at_rate, measured_workload, requests

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_measured_workload_is_drawn_as_measured(name):
    drawn = requests(measured_workload(name, 4.0), 40_000, np.random.default_rng(1))
    measured = table("workloads")
    row = list(measured["workload"]).index(name)
    assert_allclose(arrival_statistics(drawn.arrival_time).rate, 4, rtol=0.02)
    assert_allclose(np.mean(drawn.output_length), measured["output_mean"][row], rtol=0.05)
    wanted = np.nan_to_num(measured["rank_correlation"][row])
    assert_allclose(spearmanr(drawn.prompt_length, drawn.output_length)[0], wanted, atol=0.02)


def test_the_source_of_the_chat_lengths_lacks_a_third_of_the_requests():
    """ServeGen leaves out the largest client files of m-large: 37 % of its requests."""
    shares = dict(zip(table("workloads")["workload"], table("workloads")["left_out"], strict=True))
    assert shares.pop("servegen-chat") == 0.37
    assert {*shares.values()} == {0.0}


def test_another_law_of_one_leaves_the_others_as_they_were():
    """Common random numbers: the same seed compares two workloads request by request."""
    base = measured_workload("azure-code", 2.0)
    bursty = replace(base, arrivals=ArrivalLaw(law="gamma", rate=2.0, cv=3.0))
    longer = replace(base, output=LengthLaw(law="geometric", mean=500))
    plain, other, third = (requests(each, 50, np.random.default_rng(2)) for each in (base, bursty, longer))
    assert np.array_equal(plain.prompt_length, other.prompt_length)
    assert np.array_equal(plain.output_length, other.output_length)
    assert not np.array_equal(plain.arrival_time, other.arrival_time)
    assert np.array_equal(plain.arrival_time, third.arrival_time)
    assert np.array_equal(plain.prompt_length, third.prompt_length)


def test_another_rate_brings_the_same_requests_closer():
    base = measured_workload("arxiv", 2.0)
    slow, fast = (requests(each, 50, np.random.default_rng(3)) for each in (base, at_rate(base, 8.0)))
    assert_allclose(fast.arrival_time, slow.arrival_time / 4)
    assert np.array_equal(fast.output_length, slow.output_length)


def test_replications_from_spawned_generators_share_no_request():
    base = measured_workload("arxiv", 2.0)
    one, two = (requests(base, 200, child) for child in np.random.default_rng(4).spawn(2))
    assert np.mean(one.output_length == two.output_length) < 0.2


def test_nothing_but_the_given_generator_is_touched():
    before = np.random.get_state()
    given = np.random.default_rng(5)
    requests(measured_workload("azure-code", 2.0), 10, given)
    after = np.random.get_state()
    assert before[0] == after[0]
    assert np.array_equal(before[1], after[1])
    assert given.bit_generator.state == np.random.default_rng(5).bit_generator.state  # only spawned from


DRAW = """
import hashlib
import numpy as np
from lib.workload import measured_workload, requests
drawn = requests(measured_workload("servegen-chat", 3.0), 1000, np.random.default_rng(6))
print(hashlib.sha256(b"".join(column.tobytes() for column in drawn)).hexdigest())
"""


def test_requests_are_the_same_whatever_the_hash_seed():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DRAW], cwd=ROOT, text=True, capture_output=True, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "2")
    }  # fmt: skip
    assert len(digests) == 1
    assert len(digests.pop()) == 65


def test_a_workload_is_made_of_laws():
    law = LengthLaw(law="constant", mean=5)
    with pytest.raises(ValueError, match="arrivals must be a ArrivalLaw, got 3"):
        Workload(arrivals=3, prompt=law, output=law)
    with pytest.raises(ValueError, match="output must be a LengthLaw or MeasuredLengths, got 3"):
        Workload(arrivals=ArrivalLaw(law="poisson", rate=1.0), prompt=law, output=3)
