"""Every row of ``data/theory_values.csv`` against the library, by id, within the row's tolerance.

A row carries its own source: numbers printed by others, or computed independently of this library.
`CALLS` turns a row's parameters into a call; `ELSEWHERE` says why a row is not tested here.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import lognorm

from lib import (
    batch_law,
    bulk,
    control_limit,
    dynamic_batching,
    erlang,
    exponential_batch,
    formation,
    multiserver,
    occupancy,
    order_statistics,
    processor_sharing,
    queueing,
    static_batch,
    token_load,
)

with (Path(__file__).parent / "data" / "theory_values.csv").open(newline="") as file:
    ROWS = {row["id"]: row for row in csv.DictReader(file)}


def _mmc_rate(c, rho=None, lam=None, **_):
    return lam if rho is None else rho * c


def _mmc_wait(c, mu=1, ES=1, **load):
    return erlang.mmc_wait(_mmc_rate(c, **load), ES / mu, c)


def _mmc_delay(c, mu, **load):
    return erlang.mmc_wait_probability(_mmc_rate(c, **load), 1 / mu, c)


def _mdc(rho, c, D):
    return multiserver.mdc_wait(rho * c / D, D, c)


def _mmab(function):
    return lambda lam, mu, a, b: function(lam, 1 / mu, a, b)


def _formation(function):
    return lambda lam, b, T: function(lam, b, T)


def _yang_survival(mu_ln, sigma_ln, nmax, **_):
    return lognorm.sf(np.arange(nmax), sigma_ln, scale=np.exp(mu_ln))


def _yang_wait(a, c, lam, **law):
    mean, second, _ = order_statistics.clipped_moments(_yang_survival(**law))
    return queueing.mg1_wait(lam, a * mean + c, a**2 * second + 2 * a * c * mean + c**2)


def _yang_load(a, c, lam, **law):
    return lam * (a * order_statistics.clipped_moments(_yang_survival(**law))[0] + c)


def _mg1_number(lam, ES, ES2):
    return lam * (ES + queueing.mg1_wait(lam, ES, ES2))


def _chaudhry_gai(lam, a, b, d_j, n=None):
    assert d_j == "j/3"
    times = np.arange(1, b + 1) / 3
    if n is None:
        return bulk.bulk_queue(lam, times, control_limit=a).left_behind
    return bulk.left_behind_law(lam, times, n + 1, control_limit=a)[n].sum()


def _aor_joint(lam, a, b, mu_r, r, n):
    assert mu_r == "r+6"
    times = 1 / (np.arange(1, b + 1) + 6)
    return bulk.left_behind_law(lam, times, n + 1, control_limit=a, service_cv2=1)[n, r - 1]


def _aor_size(lam, a, b, mu_r, r):
    times = 1 / (np.arange(1, b + 1) + 6)
    return bulk.bulk_queue(lam, times, control_limit=a, service_cv2=1).size_law[r - 1]


def _affine_queue(service_cv2, lam, alpha, tau0, a, b):
    times = alpha * np.arange(1, b + 1) + tau0
    return bulk.bulk_queue(lam, times, control_limit=a, service_cv2=service_cv2)


def _timeout(lam, alpha, tau0, b, T):
    return bulk.timeout_queue(lam, alpha * np.arange(1, b + 1) + tau0, T)


def _inoue(function):
    def call(alpha, tau0, lam=None, rho=None):
        return function(lam if rho is None else rho / alpha, tau0, alpha)
    return call


def _greedy_capped(lam, alpha, tau0, bmax):
    return _affine_queue(0, lam, alpha, tau0, 1, bmax).sojourn_time


def _best_exponential_limit(lam, mu, b):
    limits = np.arange(1, b + 1)
    return limits[np.argmin(exponential_batch.mmab_wait(lam, 1 / mu, limits, b))]


def _deb_serfozo(lam, alpha, tau0, K, h):
    times = alpha * np.arange(1, 101) + tau0  # more than 100 at once has probability below 1e-80
    return control_limit.best_control_limit(lam, times, batch_cost=K, holding_cost=h)[0]


def _clearing_cost(lam, K, h):
    return control_limit.clearing_cost(lam, K, h, control_limit.clearing_limit(lam, K, h))


def _clipped_geometric_ratio(L, n, max_tokens):
    survival = (1 - 1 / L) ** np.arange(max_tokens)
    return order_statistics.survival_max(survival, n) / order_statistics.clipped_moments(survival)[0]


def _uncapped(lam, EL, t_w, t_c):
    return processor_sharing.uncapped_occupancy(lam, EL, t_w, t_c)


def _uncapped_variance(lam, EL, t_w, t_c):
    count = np.arange(2000)
    law = processor_sharing.uncapped_law(count, lam, EL, t_w, t_c)
    return law @ count**2 - (law @ count) ** 2


def _steps(nmax, t_w, t_c):
    return t_w + t_c * np.arange(1, nmax + 1)


def _capped(lam, EL, nmax, t_w, t_c):
    return occupancy.capped_occupancy(lam, EL, _steps(nmax, t_w, t_c))


def _cache_step(lam, EL, P, t_w, t_c, t_kv):
    context = token_load.mean_resident_context(P, EL, 2 * EL**2 - EL)
    return processor_sharing.uncapped_occupancy(lam, EL, t_w, t_c + context * t_kv).time_per_token


def _resident(index):
    def call(lam, P, m, d):
        return token_load.resident_tokens(lam, d, P, [m, 2 * m**2, 6 * m**3])[index]
    return call


def _dai_step(b):
    return token_load.staircase_step_time(b, 11.28, 35.47, 128)


def _nie(M, b_bar):
    mean, second = (10 + 1600) / 2, (1600**3 - 10**3) / (3 * 1590)
    return token_load.memory_limited_rate(M, b_bar, mean**2 + second / 2)


def _scaling_book(function, scale):
    def call(W, KV, BW, b):
        return scale * function(b, W / BW, KV / BW)
    return call


CALLS = {
    ("A-MM1-01",): lambda lam, mu: queueing.mm1_sojourn_time(lam, 1 / mu),
    ("A-MM1-02",): lambda lam, mu, q: queueing.mm1_sojourn_quantile(q, lam, 1 / mu),
    ("A-MG1-01",): lambda lam, S: queueing.mg1_wait(lam, S, S**2),
    ("A-MG1-03",): _mg1_number,
    ("A-YANG-01",): _yang_wait,
    ("A-YANG-03",): _yang_load,
    ("A-MMC-02", "A-MMC-06", "A-MMC-07", "A-MMC-08", "A-MMC-10", "A-MMC-12"): _mmc_wait,
    ("A-MMC-01", "A-MMC-05"): _mmc_delay,
    ("A-MMC-14",): lambda lam, mu, c: lam * _mmc_wait(c, mu, lam=lam),
    ("A-MMCK-01", "A-MMCK-03"): lambda lam, mu, c, K: erlang.mmck_law(lam, 1 / mu, c, K)[-1],
    ("A-MGC-01", "A-MGC-02", "A-MGC-03", "A-MGC-04"): _mdc,
    ("A-GG1-01",): lambda lam, mu: queueing.ekm1_wait(lam, 1 / mu, 2),
    ("A-GG1-03",): lambda lam, ES, ca2, cs2: queueing.gg1_wait(lam, ES, ca2, cs2),
    ("A-BULK-01", "A-BULK-02", "A-BULK-03"): _mmab(exponential_batch.mmab_wait),
    ("A-BULK-06",): _mmab(exponential_batch.mmab_batch_size),
    ("A-BULK-07",): _mmab(exponential_batch.mmab_idle_probability),
    ("A-BULK-08",): lambda lam, mu, b: (b - 1) / (2 * lam) + queueing.ekm1_wait(lam / b, 1 / mu, b) + 1 / mu,
    ("A-CG-01", "A-CG-03", "A-CG-04", "A-CG-06"): _chaudhry_gai,
    ("A-AOR-01", "A-AOR-02", "A-AOR-03", "A-AOR-05"): _aor_joint,
    ("A-AOR-08", "A-AOR-10"): _aor_size,
    ("A-GAB-01", "A-GAB-05"): lambda **p: _affine_queue(0, **p).sojourn_time,
    ("A-GAB-02", "A-GAB-06"): lambda **p: _affine_queue(0, **p).batch_size,
    ("A-GAB-07",): lambda **p: _affine_queue(1, **p).sojourn_time,
    ("B-PHI-01", "B-PHI-05"): _inoue(dynamic_batching.inoue_light_bound),
    ("B-PHI-02", "B-PHI-06"): _inoue(dynamic_batching.inoue_heavy_bound),
    ("B-EXACT-01", "B-EXACT-03", "B-EXACT-05", "B-EXACT-06", "B-EXACT-11"): _inoue(
        dynamic_batching.dynamic_sojourn_time),
    ("B-EXACT-07", "B-EXACT-12"): _inoue(dynamic_batching.dynamic_batch_size),
    ("B-EXACT-08", "B-EXACT-13"): _inoue(dynamic_batching.dynamic_busy_fraction),
    ("B-BMAX-01",): _greedy_capped,
    ("C-TO-01", "C-TO-05", "C-TO-09"): _formation(formation.formation_batch_size),
    ("C-TO-02", "C-TO-06", "C-TO-10"): _formation(formation.formation_wait),
    ("C-TO-11",): _formation(formation.formation_full_probability),
    ("C-COST-01",): lambda lam, b, T, c, alpha, tau0: batch_law.token_cost(
        c, formation.formation_batch_size(lam, b, T), tau0, alpha),
    ("C-TOSIM-01", "C-TOSIM-05"): lambda **p: _timeout(**p).sojourn_time,
    ("C-TOSIM-02", "C-TOSIM-06"): lambda **p: _timeout(**p).batch_size,
    ("C-CTRL-01",): lambda alpha: control_limit.waiting_threshold(1),
    ("C-CTRL-02", "C-CTRL-03", "C-CTRL-05"): lambda lam, tau0, a: control_limit.constant_batch_sojourn_time(
        lam, tau0, a),
    ("C-CTRL-06",): _best_exponential_limit,
    ("C-EOQ-01",): lambda lam, K, h: control_limit.clearing_limit(lam, K, h),
    ("C-EOQ-02",): _clearing_cost,
    ("C-DS-01",): _deb_serfozo,
    ("D-GEO-01", "D-GEO-02", "D-GEO-04"): lambda L, n: order_statistics.geometric_max(L, n),
    ("D-EXP-01", "D-EXP-02", "D-EXP-03"): lambda n: order_statistics.exponential_max_ratio(n),
    ("D-LN-01", "D-LN-03", "D-LN-05", "D-LN-06"): lambda sigma, n: order_statistics.lognormal_max_ratio(sigma, n),
    ("D-PAR-01",): lambda alpha, n: order_statistics.pareto_max_ratio(alpha, n),
    ("D-UNI-01",): lambda m, n: order_statistics.uniform_max(m, n),
    ("D-CLIP-01",): _clipped_geometric_ratio,
    ("D-EMP-01",): lambda lengths, n: order_statistics.empirical_max(lengths, n),
    ("D-SPD-01",): lambda n, t_w, t_c: static_batch.elastic_speedup(
        order_statistics.exponential_max_ratio(n), n, t_w, t_c),
    ("D-BIN-01",): lambda lo, hi, B, k: static_batch.sorted_bins_throughput(lo, hi, B, k),
    ("E-NB-01", "E-NB-07"): lambda **p: _uncapped(**p).resident,
    ("E-NB-02", "E-NB-08"): lambda **p: _uncapped(**p).time_per_token,
    ("E-NB-03", "E-NB-09"): _uncapped_variance,
    ("E-NB-10",): lambda n, lam, EL, t_w, t_c: processor_sharing.uncapped_law(n, lam, EL, t_w, t_c),
    ("E-CAP-01", "E-CAP-04"): lambda **p: _capped(**p).wait,
    ("E-CAP-02", "E-CAP-05"): lambda **p: _capped(**p).wait_probability,
    ("E-CAP-03", "E-CAP-06"): lambda **p: p["lam"] * _capped(**p).sojourn_time,
    ("E-LOSS-01",): lambda lam, EL, nmax, t_w, t_c: occupancy.loss_probability(lam, EL, _steps(nmax, t_w, t_c)),
    ("E-LPS-01", "E-LPS-03"): lambda lam, ES, K, cs2: processor_sharing.lps_sojourn_time(lam, ES, K, cs2),
    ("E-LPS-04",): lambda lam, mu, K: processor_sharing.lps_wait(lam, 1 / mu, K),
    ("E-KVS-01",): _cache_step,
    ("E-KVS-02",): lambda EL, P: token_load.mean_resident_context(P, EL, 2 * EL**2 - EL),
    ("E-KVM-01",): _resident(0),
    ("E-KVM-02",): _resident(1),
    ("E-HW-01",): lambda beta: multiserver.halfin_whitt_wait_probability(beta),
    ("E-DAI-01",): _dai_step,
    ("E-DAI-02",): lambda b_max, m_p, m_d: token_load.work_conserving_rate(b_max, _dai_step(b_max) / 1e3, m_p, m_d),
    ("E-DONG-01",): lambda l, o: token_load.token_slots(l, o),  # noqa: E741
    ("E-NIE-01",): _nie,
    ("F-SB-01", "F-SB-05", "F-SB-09"): _scaling_book(batch_law.batch_time, 1e3),
    ("F-SB-02", "F-SB-06", "F-SB-10"): _scaling_book(batch_law.token_rate, 1),
    ("F-LAW-01",): lambda t_w_ms, t_1_ms: batch_law.half_saturation_batch(t_w_ms, t_1_ms),
    ("F-LAW-02",): lambda SLO_ms, t_w_ms, t_1_ms: batch_law.largest_batch_within(SLO_ms, t_w_ms, t_1_ms),
    ("F-LAW-03",): lambda price_per_h, b, t_w_s, t_1_s: 1e6 * batch_law.token_cost(price_per_h / 3600, b, t_w_s, t_1_s),
    ("F-USL-01",): lambda t_w, t_c: batch_law.usl_contention(t_w, t_c),
    ("F-LITTLE-01",): lambda lam, TTFT, EL, TPOT: token_load.mean_concurrency(lam, TTFT, EL, TPOT),
}

ELSEWHERE = {
    **dict.fromkeys(["A-MGC-06", "A-MGC-08"], "phase-type servers: no chapter has servers of one request and a queue"),
    **dict.fromkeys(["A-MGC-05", "A-MGC-09"], "approximations of M/G/c: no chapter needs them"),
    "A-GG1-05": "a correction of `gg1_wait` for smooth arrivals, which no trace has",
    **dict.fromkeys(["A-BAILEY-01", "A-BAILEY-03"], "a service that starts without requests: no chapter needs it"),
    **dict.fromkeys(["B-FIT-01", "B-FIT-02", "B-FIT-03", "B-FIT-04"], "least squares belong to lib.fit"),
    **dict.fromkeys(["E-PRED-01", "E-PRED-03"], "order of service by size: no batching in it, so no function"),
    **dict.fromkeys(["G-CRIT-01", "G-STEP-01", "G-PRE-01", "G-CHK-01"], "roofline and prefill belong to lib.roofline"),
    **dict.fromkeys(["G-KV-01", "G-KV-03"], "cache bytes and attention intensity belong to lib.model"),
    **dict.fromkeys([f"G-MOE-{k:02d}" for k in (1, 3, 5, 6, 8, 9)], "distinct experts belong to lib.model"),
}

COVERED = {row: call for rows, call in CALLS.items() for row in rows}


@pytest.mark.parametrize("row_id", COVERED)
def test_a_published_or_independent_value_is_reproduced(row_id):
    row = ROWS[row_id]
    computed = COVERED[row_id](**json.loads(row["parameters"]))
    # A tolerance of 0 marks whole numbers and exact products.
    tolerance = float(row["tolerance"]) or 1e-12 * abs(float(row["value"]))
    assert abs(float(computed) - float(row["value"])) <= tolerance


def test_every_row_is_covered_here_or_listed_with_a_reason():
    assert sorted([*COVERED, *ELSEWHERE]) == sorted(ROWS)
    assert len(COVERED) >= 120
