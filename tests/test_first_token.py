"""The parts of the time to the first token: they add up, they follow the rules, the record is what the code gives."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib import engines, first_token, measured, pause_record, serving
from lib.batching import DynamicBatching
from lib.calibrated_step import CalibratedStep, kv_tokens
from lib.first_token import PARTS, Case, alone, boarding_share, capacity, one_by_one, policy_of, simulated, summary
from lib.simulation import simulate
from lib.trace import Trace
from scripts import simulate_first_token as script

H100 = CalibratedStep(accelerator="H100 SXM", model="Llama-3-8B")
CHAT = Case(workload="azure-conversation", step=H100, policy="vllm")
POLICIES = ("vllm", "tgi", "sglang", "gather", "prompts elsewhere")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rate", [0.5, 6.0, 40.0])
def test_the_parts_of_every_request_add_up_to_its_first_token(policy, rate):
    case = replace(CHAT, policy=policy, memory_share=0.1)
    run = simulated(case, script.drawn(CHAT.workload, rate, 200, 0))[0]
    assert_allclose(sum(run.first_token_parts), run.first_token_time - run.arrival_time, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("policy", ["vllm", "sglang"])
def test_engines_that_take_in_who_waits_hold_nobody_back(policy):
    run = simulated(replace(CHAT, policy=policy), script.drawn(CHAT.workload, 10.0, 200, 0))[0]
    assert np.all(run.first_token_parts.held_back == 0)


def test_the_rule_of_tgi_holds_prompts_back():
    run = simulated(replace(CHAT, policy="tgi"), script.drawn(CHAT.workload, 6.0, 300, 0))[0]
    parts = run.first_token_parts
    assert parts.held_back.mean() > parts.own_prefill.mean()


def test_without_its_rule_tgi_would_hold_back_for_a_single_iteration_at_most():
    """A ratio of 0: prompts still take turns with one iteration that decodes, and wait for no other."""
    requests = script.drawn(CHAT.workload, 6.0, 300, 0)
    eager = engines.tgi(kv_tokens("H100 SXM", "Llama-3-8B"), waiting_served_ratio=0)
    held = simulate(requests, eager, H100).first_token_parts.held_back
    ruled = simulated(replace(CHAT, policy="tgi"), requests)[0].first_token_parts.held_back
    assert held.mean() < ruled.mean() / 10


def test_a_lone_user_waits_for_the_prompt_alone():
    requests = script.drawn(CHAT.workload, 1.0, 50, 0)
    for policy in ("vllm", "tgi", "sglang"):
        said = summary(*simulated(replace(CHAT, policy=policy), requests, lone=True))
        assert said["ttft"] == pytest.approx(said["own_prefill"])
    read, _ = alone(H100, requests)
    assert said["ttft"] == pytest.approx(read[10:].mean(), rel=0.01)


def test_who_gathers_keeps_a_lone_user_for_the_whole_timeout():
    run = simulated(replace(CHAT, policy="gather"), script.drawn(CHAT.workload, 1.0, 50, 0), lone=True)[0]
    assert_allclose(run.first_token_parts.held_back[:-1], first_token.TIMEOUT)  # for the last, nobody else can come


def test_one_by_one_is_what_a_simulation_of_one_slot_gives():
    """Pollaczek and Khinchine against the replica with one slot, at half load; both at the same lengths."""
    step = H100
    requests = script.drawn(CHAT.workload, 1.0, 40, 0)
    read, whole = alone(step, requests)
    apart = Trace(np.arange(40) * 100.0, requests.prompt_length, requests.output_length)
    in_turn = engines.vllm(400_000, max_num_seqs=1, max_num_batched_tokens=16_384, async_scheduling=False)
    run = simulate(apart, in_turn, step)
    assert_allclose(run.first_token_time - run.arrival_time, read, rtol=1e-6)
    assert_allclose(run.finish_time - run.arrival_time, whole, rtol=0.01)
    formula = one_by_one(step, requests, 0.5)
    by_hand = 0.5 * np.mean(whole**2) / whole.mean() / (2 * 0.5) + read.mean()
    assert formula["ttft"] == pytest.approx(by_hand)
    assert formula["capacity"] == pytest.approx(1 / whole.mean())
    assert one_by_one(step, requests, 1.0)["ttft"] == np.inf


def test_a_replica_cannot_serve_more_than_its_capacity():
    requests = script.drawn(CHAT.workload, 1.0, 400, 7)
    most = capacity(CHAT, requests)
    calm, flooded = (summary(simulated(CHAT, script.drawn(CHAT.workload, share * most, 400, 7))[0])["ttft"]
                     for share in (0.5, 2.0))  # fmt: skip
    assert calm < 0.2 < 1 < flooded


def test_documented_defaults_depend_on_the_machine():
    a100 = CalibratedStep(accelerator="A100 SXM 80GB", model="Llama-3-8B")
    large, small = policy_of(CHAT), policy_of(replace(CHAT, step=a100))
    assert (large.slots, large.token_budget) == (1024, 8192)
    assert (small.slots, small.token_budget) == (256, 2048)
    assert policy_of(replace(CHAT, chunk=512)).token_budget == 512
    assert policy_of(replace(CHAT, policy="gather")) == DynamicBatching(cap=32, control_limit=32, timeout=0.3)
    with pytest.raises(ValueError, match="chunk must be left out for tgi, got 512"):
        replace(CHAT, policy="tgi", chunk=512)


def test_a_larger_chunk_brings_the_first_token_sooner_and_halts_the_others_longer():
    requests = script.drawn(CHAT.workload, 15.0, 400, 0)
    small, large = (summary(*simulated(replace(CHAT, chunk=size), requests)) for size in (512, 8192))
    assert large["ttft_p50"] < small["ttft_p50"]
    assert large["itl_p99"] > small["itl_p99"]


def test_the_time_between_tokens_is_weighed_by_who_waits_for_it():
    run = simulated(CHAT, script.drawn(CHAT.workload, 5.0, 100, 0))[0]
    said = summary(run, [1.0, 2.0, 3.0], [1, 98, 1])
    assert said["itl_p50"] == said["itl_p99"] == 2.0


def test_prompts_of_others_take_a_share_that_grows_with_their_length():
    table = measured.table("end_to_end")
    keep = (table["quantity"] == "tpot") & (table["accelerator"] == "H100 SXM")
    points = {name: column[keep] for name, column in table.items()}
    share = boarding_share(points)
    busy, long = points["concurrency"] == 64, points["input_tokens"] == 8192
    even = (points["input_tokens"] == 1024) & (points["output_tokens"] == 1024)
    assert 0 < share[busy & even].max() < share[busy & long].min() < 1


def test_the_share_of_prompts_is_the_one_that_was_put_in():
    """Times made of known coefficients: the fit must find them, and the share is theirs."""
    table = measured.table("end_to_end")
    keep = (table["quantity"] == "tpot") & (table["accelerator"] == "H100 SXM")
    points = {name: column[keep] for name, column in table.items()}
    ideal = serving.terms(points)
    spent = ideal * np.array(serving.TYPICAL)
    prompts = [term.startswith("prefill") for term in serving.TERMS]
    share = boarding_share(points | {"value": spent.sum(axis=1)})
    assert_allclose(share, spent[:, prompts].sum(axis=1) / spent.sum(axis=1), rtol=1e-3)


# --- the record ----------------------------------------------------------------------------------


def test_the_record_is_what_the_code_gives():
    """One replication of one case lies within a few half-widths of the mean of twenty."""
    table = pause_record.rows()
    where = {"experiment": "parts", "policy": "vllm", "workload": CHAT.workload, "accelerator": "H100 SXM", "load": 0.5}
    keep = (table["quantity"] == "ttft") & np.all([table[name] == wanted for name, wanted in where.items()], axis=0)
    rate, count = float(table["arrival_rate"][keep][0]), int(table["requests"][keep][0])
    half = float(table["half_width"][keep][0])
    said = summary(*simulated(CHAT, script.drawn(CHAT.workload, rate, count, 0)))
    assert abs(said["ttft"] - pause_record.value("ttft", **where)) < 4.5 * half * 1.5
    assert rate == pytest.approx(0.5 * script.capacity(CHAT), rel=0.03)


def test_the_parts_of_the_record_add_up():
    table = pause_record.rows()
    cases = {}
    for at in range(len(table["mean"])):
        if table["policy"][at] == "one by one" or table["experiment"][at] == "pressure":
            continue
        key = tuple(table[name][at] for name in ("experiment", "workload", "accelerator", "policy", "setting", "load"))
        cases.setdefault(key, {})[table["quantity"][at]] = table["mean"][at]
    assert len(cases) > 50
    for key, means in cases.items():
        assert sum(means[part] for part in PARTS) == pytest.approx(means["ttft"], rel=1e-4), key


def test_the_record_says_how_it_was_made():
    table = pause_record.rows()
    assert np.all(table["replications"] == script.REPLICATIONS)
    assert np.all(table["half_width"] >= 0)
    assert np.all(np.isfinite(table["mean"]))


def test_a_number_of_the_record_must_be_named_exactly():
    with pytest.raises(ValueError, match="where must name one row of ttft, got"):
        pause_record.value("ttft")
    with pytest.raises(ValueError, match="column must be one of"):
        pause_record.value("ttft", engine="vllm")
