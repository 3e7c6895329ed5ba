"""Every public function of the queueing theory refuses a wrong argument by name, rule and value.

`GOOD` holds one good call of each. Each argument in turn is replaced by what its domain excludes.
"""

import importlib
import inspect

import numpy as np
import pytest

from lib.domains import DOMAINS

MODULES = ["queueing", "erlang", "multiserver", "embedded_chain", "bulk", "exponential_batch", "dynamic_batching",
           "formation", "control_limit", "order_statistics", "static_batch", "occupancy", "processor_sharing",
           "token_load", "batch_law"]

QUEUE = {"arrival_rate": 0.5, "service_time": 1.0}
AFFINE = {"fixed_time": 0.02, "marginal_time": 0.001}
BATCHES = {"arrival_rate": 0.5, "batch_time": [1.0, 1.2]}
MMAB = {**QUEUE, "control_limit": 2, "batch_cap": 4}
GAPS = {**QUEUE, "arrival_cv2": 0.5, "service_cv2": 2.0}
DYNAMIC = {"arrival_rate": 2.0, **AFFINE}
WINDOW = {"arrival_rate": 2.0, "batch_cap": 4, "timeout": 1.0}
SLOTS = {"arrival_rate": 1.0, "output_length": 50.0, "step_time": [0.02, 0.03]}
SHARING = {"arrival_rate": 1.0, "output_length": 100.0, **AFFINE}

GOOD = {
    "queueing.mm1_sojourn_time": QUEUE,
    "queueing.mm1_sojourn_quantile": {"level": 0.5, **QUEUE},
    "queueing.mg1_wait": {**QUEUE, "second_moment": 2.0},
    "queueing.mg1_wait_second_moment": {**QUEUE, "second_moment": 2.0, "third_moment": 6.0},
    "queueing.ekm1_wait": {**QUEUE, "stages": 2},
    "queueing.kingman_bound": GAPS,
    "queueing.gg1_wait": GAPS,
    "erlang.erlang_b": {"offered_load": 1.5, "servers": 2},
    "erlang.mmc_wait_probability": {**QUEUE, "servers": 2},
    "erlang.mmc_wait": {**QUEUE, "servers": 2},
    "erlang.mmc_wait_tail": {"time": 1.0, **QUEUE, "servers": 2},
    "erlang.birth_death_law": {"birth_rate": [1.0, 2.0], "death_rate": [2.0, 3.0]},
    "erlang.mmck_law": {**QUEUE, "servers": 2, "capacity": 4},
    "erlang.mmck_wait": {**QUEUE, "servers": 2, "capacity": 4},
    "multiserver.mdc_wait": {**QUEUE, "servers": 2},
    "multiserver.mgc_wait": {**QUEUE, "servers": 2, "service_cv2": 2.0},
    "multiserver.halfin_whitt_servers": {"offered_load": 9.0, "slack": 1.0},
    "multiserver.halfin_whitt_wait_probability": {"slack": 1.0},
    "embedded_chain.bailey_left_behind": {**QUEUE, "batch_cap": 4, "service_cv2": 1.0},
    "bulk.bulk_queue": {**BATCHES, "control_limit": 2, "service_cv2": 0.5},
    "bulk.left_behind_law": {**BATCHES, "count": 3, "control_limit": 2, "service_cv2": 0.5},
    "bulk.timeout_queue": {**BATCHES, "timeout": 0.5},
    "exponential_batch.mmab_wait": MMAB,
    "exponential_batch.mmab_idle_probability": MMAB,
    "exponential_batch.mmab_batch_size": MMAB,
    "dynamic_batching.dynamic_batch_size": DYNAMIC,
    "dynamic_batching.dynamic_sojourn_time": DYNAMIC,
    "dynamic_batching.dynamic_busy_fraction": DYNAMIC,
    "dynamic_batching.dynamic_sojourn_bounds": DYNAMIC,
    "dynamic_batching.inoue_light_bound": DYNAMIC,
    "dynamic_batching.inoue_heavy_bound": DYNAMIC,
    "formation.formation_batch_size": WINDOW,
    "formation.formation_full_probability": WINDOW,
    "formation.formation_wait": WINDOW,
    "control_limit.constant_batch_sojourn_time": {"arrival_rate": 2.0, "batch_time": 1.0, "control_limit": 2},
    "control_limit.waiting_threshold": {"control_limit": 2},
    "control_limit.best_control_limit": {**BATCHES, "service_cv2": 1.0, "batch_cost": 1.0, "holding_cost": 2.0},
    "control_limit.clearing_cost": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0, "control_limit": 2},
    "control_limit.clearing_limit": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0},
    "control_limit.clearing_timer": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0},
    "order_statistics.exponential_max_ratio": {"batch_size": 4},
    "order_statistics.lognormal_max_ratio": {"log_sd": 1.0, "batch_size": 4},
    "order_statistics.pareto_max_ratio": {"shape": 2.0, "batch_size": 4},
    "order_statistics.geometric_max": {"mean_length": 50.0, "batch_size": 4},
    "order_statistics.uniform_max": {"largest": 6, "batch_size": 4},
    "order_statistics.empirical_max": {"lengths": [3.0, 5.0], "batch_size": 4},
    "order_statistics.survival_max": {"survival": [1.0, 0.5], "batch_size": 4},
    "order_statistics.clipped_moments": {"survival": [1.0, 0.5]},
    "static_batch.slot_utilisation": {"max_ratio": 2.0},
    "static_batch.elastic_speedup": {"max_ratio": 2.0, "batch_size": 4, **AFFINE},
    "static_batch.sorted_bins_throughput": {"shortest": 1.0, "longest": 20.0, "batch_size": 4, "bins": 3},
    "occupancy.capped_occupancy": {**SLOTS, "output_cv2": 2.0},
    "occupancy.occupancy_law": SLOTS,
    "occupancy.admission_wait_tail": {"time": 1.0, **SLOTS},
    "occupancy.loss_probability": SLOTS,
    "processor_sharing.uncapped_occupancy": SHARING,
    "processor_sharing.uncapped_law": {"count": 3, **SHARING},
    "processor_sharing.largest_arrival_rate": {"time_per_token": 0.05, "output_length": 100.0, **AFFINE},
    "processor_sharing.lps_wait": {**QUEUE, "slots": 3},
    "processor_sharing.lps_sojourn_time": {**QUEUE, "slots": 3, "service_cv2": 2.0},
    "token_load.token_slots": {"prompt_length": 10, "output_length": 20},
    "token_load.memory_limited_rate": {"memory_tokens": 1e5, "step_time": 0.03, "token_slots": 410.0},
    "token_load.work_conserving_rate": {"tokens": 512, "step_time": 0.15, "prompt_length": 10, "output_length": 20},
    "token_load.staircase_step_time": {"tokens": 512, "fixed_time": 0.01, "tile_time": 0.03, "tile": 128},
    "token_load.fluid_step_time": {"token_load": 100.0, **AFFINE},
    "token_load.mean_resident_context": {"prompt_length": 10, "output_length": 20, "output_second_moment": 800.0},
    "token_load.resident_tokens": {"arrival_rate": 2.0, "token_time": 0.02, "prompt_length": 10,
                                   "output_moments": [20.0, 800.0, 48000.0]},
    "token_load.mean_concurrency": {"arrival_rate": 4.0, "first_token_time": 0.5, "output_length": 250.0,
                                    "time_per_token": 0.03},
    "batch_law.batch_time": {"batch_size": 4, **AFFINE},
    "batch_law.token_rate": {"batch_size": 4, **AFFINE},
    "batch_law.token_cost": {"price_rate": 0.001, "mean_batch": 4.0, **AFFINE},
    "batch_law.half_saturation_batch": AFFINE,
    "batch_law.largest_batch_within": {"step_limit": 0.05, **AFFINE},
    "batch_law.usl_token_rate": {"batch_size": 4, "single_rate": 50.0, "contention": 0.1, "coherency": 0.01},
    "batch_law.usl_contention": AFFINE,
    "batch_law.usl_peak": {"contention": 0.1, "coherency": 0.01},
}

# Options that are one number where the same word is an array elsewhere, or have another limit there.
STRICTER = {"service_cv2": {"bulk_queue", "left_behind_law", "bailey_left_behind", "best_control_limit"},
            "batch_cap": {"bailey_left_behind"}, "timeout": {"timeout_queue"}}
COSTLESS = {("best_control_limit", "batch_cost")}  # starting a batch may cost nothing


def public_functions():
    for name in MODULES:
        module = importlib.import_module(f"lib.{name}")
        for word, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not word.startswith("_"):
                yield f"{name}.{word}", value


FUNCTIONS = dict(public_functions())
# Parts that other modules build on, not called by readers: they take what is checked already.
PARTS = {"queueing.when_stable", "embedded_chain.disc_roots", "embedded_chain.arrivals_transform",
         "embedded_chain.arrivals_law", "embedded_chain.starts_above", "embedded_chain.landing_law",
         "embedded_chain.returns_below"}
ARGUMENTS = [(name, word) for name, good in GOOD.items() for word in good]


def excluded(function, word):
    """Return values outside the domain of `word`."""
    rule = dict(DOMAINS.get(word, {"least": 0}))
    yield from (np.nan, -1, -np.inf, "2", "fast", None, True, [], [[1.0, 2.0], [3.0]], 1j)
    if not rule.get("infinite") or function in STRICTER.get(word, ()):
        yield np.inf
    if ("above" in rule or rule.get("least", 0) > 0) and (function, word) not in COSTLESS:
        yield 0
    if rule.get("whole"):
        yield 1.5
    if "most" in rule:
        yield rule["most"] + 0.1


@pytest.mark.parametrize(("name", "word"), ARGUMENTS)
def test_a_value_outside_its_domain_is_refused_by_name(name, word):
    for value in excluded(name.split(".")[1], word):
        with pytest.raises(ValueError, match=rf"\b{word}\b"):
            FUNCTIONS[name](**{**GOOD[name], word: value})


@pytest.mark.parametrize("name", GOOD)
def test_the_good_call_is_finite_and_shapes_that_do_not_fit_are_refused(name):
    result = FUNCTIONS[name](**GOOD[name])
    for part in result if isinstance(result, tuple) else [result]:
        assert np.all(np.isfinite(part))
    swept = [word for word, value in GOOD[name].items() if np.ndim(value) == 0]
    try:
        sweeps = [FUNCTIONS[name](**{**GOOD[name], word: [GOOD[name][word]] * 2}) for word in swept[:2]]
    except ValueError as refusal:
        assert "must be a number" in str(refusal)
        return
    if len(sweeps) == 2:
        bad = {swept[0]: [GOOD[name][swept[0]]] * 2, swept[1]: [GOOD[name][swept[1]]] * 3}
        with pytest.raises(ValueError, match=rf"{swept[0]}.*{swept[1]}|must be a number|one axis"):
            FUNCTIONS[name](**{**GOOD[name], **bad})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_has_a_good_call_a_source_and_few_parameters(name):
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters.values()
    assert len(parameters) <= 5
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters if p.default is not p.empty)
    if name in PARTS:
        return
    assert name in GOOD
    sections = inspect.getdoc(function)
    for section in ("Parameters\n---", "Returns\n---", "Raises\n---", "Notes\n---"):
        assert section in sections, section
    assert "Source:" in sections or "[derived]" in sections


@pytest.mark.parametrize("method", ["exact ", "", None, 3, "simulated"])
def test_an_unknown_method_is_refused_with_the_known_ones(method):
    for name, known in (("queueing.gg1_wait", "vut"), ("multiserver.mdc_wait", "cosmetatos"),
                        ("multiserver.mgc_wait", "kimura")):
        with pytest.raises(ValueError, match=f"method must be one of .*{known}"):
            FUNCTIONS[name](**GOOD[name], method=method)
