"""One valid call of every public function of the queueing modules; see `valid_calls`, which takes this table in.

What each argument may be is said once, in `lib.domains`: the allowances follow from it.
"""

from lib.domains import DOMAINS

QUEUE = {"arrival_rate": 0.5, "service_time": 1.0}
AFFINE = {"fixed_time": 0.02, "marginal_time": 0.001}
BATCHES = {"arrival_rate": 0.5, "batch_time": [1.0, 1.2]}
MMAB = {**QUEUE, "control_limit": 2, "batch_cap": 4}
GAPS = {**QUEUE, "arrival_cv2": 0.5, "service_cv2": 2.0}
DYNAMIC = {"arrival_rate": 2.0, **AFFINE}
WINDOW = {"arrival_rate": 2.0, "batch_cap": 4, "timeout": 1.0}
SLOTS = {"arrival_rate": 1.0, "output_length": 50.0, "step_time": [0.02, 0.03]}
SHARING = {"arrival_rate": 1.0, "output_length": 100.0, **AFFINE}
PART = "a part that other modules build on: it takes what they have checked"
RESULT = "a result: made from arguments that are checked already"
RULE = "a rule itself: test_domains holds it against every word"

# module: {function: its valid call, or a text that says why there is none}
CALLS = {
    "domains": {"checked": RULE, "single": RULE, "at_least": RULE},
    "queueing": {
        "mm1_sojourn_time": QUEUE,
        "mm1_sojourn_quantile": {"level": 0.5, **QUEUE},
        "mg1_wait": {**QUEUE, "second_moment": 2.0},
        "mg1_wait_second_moment": {**QUEUE, "second_moment": 2.0, "third_moment": 6.0},
        "ekm1_wait": {**QUEUE, "stages": 2},
        "kingman_bound": GAPS,
        "gg1_wait": GAPS,
        "when_stable": PART,
    },
    "erlang": {
        "erlang_b": {"offered_load": 1.5, "servers": 2},
        "mmc_wait_probability": {**QUEUE, "servers": 2},
        "mmc_wait": {**QUEUE, "servers": 2},
        "mmc_wait_tail": {"time": 1.0, **QUEUE, "servers": 2},
        "birth_death_law": {"birth_rate": [1.0, 2.0], "death_rate": [2.0, 3.0]},
        "mmck_law": {**QUEUE, "servers": 2, "capacity": 4},
        "mmck_wait": {**QUEUE, "servers": 2, "capacity": 4},
    },
    "multiserver": {
        "mdc_wait": {**QUEUE, "servers": 2},
        "halfin_whitt_servers": {"offered_load": 9.0, "slack": 1.0},
        "halfin_whitt_wait_probability": {"slack": 1.0},
    },
    "embedded_chain": dict.fromkeys(
        ["disc_roots", "arrivals_transform", "arrivals_law", "walk_memory", "starts_above", "with_rest", "landing_law",
         "returns_below", "first_below"], PART),
    "bulk": {
        "BulkQueue": RESULT,
        "bulk_queue": {**BATCHES, "control_limit": 2, "service_cv2": [0.5, 0.3]},
        "left_behind_law": {**BATCHES, "count": 3, "control_limit": 2, "service_cv2": [0.5, 0.3]},
        "timeout_queue": {**BATCHES, "timeout": 0.5},
    },
    "exponential_batch": {
        "mmab_wait": MMAB,
        "mmab_idle_probability": MMAB,
        "mmab_batch_size": MMAB,
    },
    "dynamic_batching": {
        "dynamic_batch_size": DYNAMIC,
        "dynamic_sojourn_time": DYNAMIC,
        "dynamic_busy_fraction": DYNAMIC,
        "dynamic_sojourn_bounds": DYNAMIC,
        "inoue_light_bound": DYNAMIC,
        "inoue_heavy_bound": DYNAMIC,
    },
    "formation": {
        "formation_batch_size": WINDOW,
        "formation_full_probability": WINDOW,
        "formation_wait": WINDOW,
    },
    "control_limit": {
        "constant_batch_sojourn_time": {"arrival_rate": 2.0, "batch_time": 1.0, "control_limit": 2},
        "waiting_threshold": {"control_limit": 2},
        "best_control_limit": {**BATCHES, "service_cv2": 1.0, "batch_cost": 1.0, "holding_cost": 2.0},
        "clearing_cost": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0, "control_limit": 2},
        "clearing_limit": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0},
        "clearing_timer": {"arrival_rate": 2.0, "batch_cost": 3.0, "holding_cost": 1.0},
    },
    "order_statistics": {
        "exponential_max_ratio": {"batch_size": 4},
        "lognormal_max_ratio": {"log_sd": 1.0, "batch_size": 4},
        "pareto_max_ratio": {"shape": 2.0, "batch_size": 4},
        "geometric_max": {"mean_length": 50.0, "batch_size": 4},
        "uniform_max": {"largest": 6, "batch_size": 4},
        "empirical_max": {"lengths": [3.0, 5.0], "batch_size": 4},
        "survival_max": {"survival": [1.0, 0.5], "batch_size": 4},
        "clipped_moments": {"survival": [1.0, 0.5]},
    },
    "static_batch": {
        "slot_utilisation": {"max_ratio": 2.0},
        "elastic_speedup": {"max_ratio": 2.0, "batch_size": 4, **AFFINE},
        "sorted_bins_throughput": {"shortest": 1.0, "longest": 20.0, "batch_size": 4, "bins": 3},
    },
    "occupancy": {
        "Occupancy": RESULT,
        "capped_occupancy": {**SLOTS, "output_cv2": 2.0},
        "occupancy_law": SLOTS,
        "admission_wait_tail": {"time": 1.0, **SLOTS},
        "loss_probability": SLOTS,
    },
    "processor_sharing": {
        "uncapped_occupancy": SHARING,
        "uncapped_law": {"count": 3, **SHARING},
        "largest_arrival_rate": {"time_per_token": 0.05, "output_length": 100.0, **AFFINE},
        "lps_wait": {**QUEUE, "slots": 3},
        "lps_sojourn_time": {**QUEUE, "slots": 3, "service_cv2": 2.0},
    },
    "token_load": {
        "token_slots": {"prompt_length": 10, "output_length": 20},
        "useful_share": {"prompt_length": 10, "output_length": 20, "reserved": 64},
        "memory_limited_rate": {"memory_tokens": 1e5, "step_time": 0.03, "token_slots": 410.0},
        "work_conserving_rate": {"tokens": 512, "step_time": 0.15, "prompt_length": 10, "output_length": 20},
        "staircase_step_time": {"tokens": 512, "fixed_time": 0.01, "tile_time": 0.03, "tile": 128},
        "fluid_step_time": {"token_load": 100.0, **AFFINE},
        "mean_resident_context": {"prompt_length": 10, "output_length": 20, "output_second_moment": 800.0},
        "resident_tokens": {"arrival_rate": 2.0, "token_time": 0.02, "prompt_length": 10, "output_moments": [20.0,
            800.0, 48000.0]},
        "mean_concurrency": {"arrival_rate": 4.0, "first_token_time": 0.5, "output_length": 250.0,
            "time_per_token": 0.03},
    },
    "batch_law": {
        "batch_time": {"batch_size": 4, **AFFINE},
        "token_rate": {"batch_size": 4, **AFFINE},
        "token_cost": {"price_rate": 0.001, "mean_batch": 4.0, **AFFINE},
        "half_saturation_batch": AFFINE,
        "largest_batch_within": {"step_limit": 0.05, **AFFINE},
        "usl_token_rate": {"batch_size": 4, "single_rate": 50.0, "contention": 0.1, "coherency": 0.01},
        "usl_contention": AFFINE,
        "usl_peak": {"contention": 0.1, "coherency": 0.01},
    },
}

# function.argument: {kind of value: why it is a good one}
ALLOWED = {
    f"{function}.{word}": {
        **({"infinity": "a limit that the docstring names"} if DOMAINS[word].get("infinite") else {}),
        **({"zero": "there may be none of it"} if DOMAINS[word].get("least") == 0 else {}),
    }
    for functions in CALLS.values()
    for function, arguments in functions.items()
    for word in arguments
    if word in DOMAINS and not isinstance(arguments, str)
}
ALLOWED["best_control_limit.batch_cost"] = {"zero": "starting a batch may cost nothing"}
ALLOWED["resident_tokens.output_moments"] = {}
