"""Every closed form of the queueing takes 10,000 loads at once, in under a second."""

import time
from importlib import import_module

import numpy as np
import pytest

from lib.domains import DOMAINS
from tests.valid_calls import CALLS
from tests.valid_queueing_calls import CALLS as QUEUEING

COUNT = 10_000
CHAIN = "an embedded chain: a point takes under 20 ms, see test_bulk"
ONE_LOAD = "a law with an end of its own: asked for one load"
LENGTHS = "sums over measured lengths: no load in it"
# What is not a closed form in a load, and why.
APART = {
    "bulk.bulk_queue": CHAIN, "bulk.timeout_queue": CHAIN, "bulk.left_behind_law": CHAIN,
    "control_limit.best_control_limit": CHAIN, "timeout_batching.timeout_size_law": ONE_LOAD,
    "timeout_batching.timeout_sojourn_quantile": ONE_LOAD, "order_statistics.empirical_max": LENGTHS,
    "order_statistics.survival_max": LENGTHS, "order_statistics.clipped_moments": LENGTHS,
    "token_load.useful_share": LENGTHS, "erlang.birth_death_law": "takes the rates of one chain, state by state",
}  # fmt: skip
FORMS = [
    pytest.param(getattr(import_module(f"lib.{module}"), name), given, id=f"{module}.{name}")
    for module in (*QUEUEING, "timeout_batching")
    for name, given in CALLS[module].items()
    if isinstance(given, dict) and f"{module}.{name}" not in APART
]


def swept(given):
    """Return the word to sweep and its values: loads up to .97 where there is a load, or the first number."""
    time_of_one = given.get("service_time", given.get("marginal_time"))
    if "arrival_rate" in given:
        most = 0.97 / time_of_one if time_of_one else given["arrival_rate"]
        return "arrival_rate", np.linspace(0.01, 1, COUNT) * most
    word = "batch_size" if "batch_size" in given else next(iter(given))
    value = given[word]
    return word, np.full(COUNT, value) if DOMAINS.get(word, {}).get("whole") else np.linspace(value, 2 * value, COUNT)


@pytest.mark.alone
@pytest.mark.parametrize(("form", "given"), FORMS)
def test_a_closed_form_takes_ten_thousand_loads_in_under_a_second(form, given):
    """In processor time, the better of two: what a call imports or compiles counts once."""
    word, values = swept(given)
    taken = []
    for _ in range(2):
        began = time.process_time()
        found = form(**given | {word: values})
        taken.append(time.process_time() - began)
    first = found[0] if isinstance(found, tuple) else found
    assert np.shape(first)[0] == COUNT
    assert min(taken) < 1


def test_what_is_apart_exists():
    names = {f"{module}.{name}" for module in (*QUEUEING, "timeout_batching") for name in CALLS[module]}
    assert {*APART} - names == set()
