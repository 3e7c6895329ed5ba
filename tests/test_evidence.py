"""The numbers that decide the claims, by hand and from the tables; other inputs get other words."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lib import (
    amortisation,
    article,
    claims,
    coach_evidence,
    engine_step,
    first_token,
    footprint,
    frontier,
    hardware,
    loop_bus,
    memory,
    pause_evidence,
    pause_record,
    price_evidence,
    prices,
    roofline,
)  # fmt: skip
from lib import model as models
from lib.claims import FAILS, HOLDS, LIMITED, judge
from lib.deployment import Deployment, traffic_of
from lib.length_fit import max_ratio, sorted_max_ratio
from lib.lengths import LengthLaw, MeasuredLengths, length_quantile
from lib.measured import table
from lib.offer import offer
from lib.units import quantity, quantity_range


def test_the_first_claim_rests_on_the_worst_pair_of_machine_and_model():
    """The smallest ratio by a direct loop, and its arithmetic for the pair that gives it."""
    number = claims.EVIDENCE["C01"]().number
    machine, subject = hardware.hardware("P100 SXM 16GB"), models.model("DeepSeek-V3")
    moved = float(footprint.streamed_weight_bytes(subject, 1) + footprint.kv_bytes(subject, 1024)) / 7.32e11
    computed = float(footprint.flop_per_token(subject, 1024)) / 2.12e13
    assert number == pytest.approx(moved / computed)
    assert number < float(hardware.ridge_point(machine))


def test_the_articles_example_is_that_of_an_h100():
    """100e9 B at 3.35e12 B/s; 2 x 50e9 FLOP at 9.894e14 FLOP/s."""
    transfer, arithmetic = article.example_times(hardware.hardware("H100 SXM"))
    assert transfer == pytest.approx(0.029851, abs=1e-6)
    assert arithmetic == pytest.approx(1.0107e-4, abs=1e-8)


def test_on_chip_memory_is_judged_without_and_with_the_wafer():
    """8,030,261,248 parameters of 2 B over 256 MiB; 1,235,814,400 of 2 B over 40e9 B."""
    evidence = claims.EVIDENCE["C02"]()
    assert evidence.number == pytest.approx(2 * 8_030_261_248 / 2**28)
    assert evidence.edge == pytest.approx(2 * 1_235_814_400 / 40e9)


def test_twice_the_flop_rate_buys_nothing_in_decode_and_everything_in_prefill():
    evidence = claims.EVIDENCE["C17"]()
    assert evidence.number == 0
    assert evidence.edge == pytest.approx(1.0, abs=1e-3)


def test_the_idle_share_of_the_fourth_claim_is_that_of_one_step():
    step = roofline.decode_step(hardware.hardware("H100 SXM"), models.model("Llama-3-8B"), 1, 1024)
    assert claims.EVIDENCE["C04"]().number == pytest.approx(float(np.squeeze(roofline.idle_share(step))))


def test_almost_the_same_time_is_judged_by_kernels_of_large_models():
    """Llama-2-70B over 4 H100 at 128 tokens: 14.7 ms alone and 15.8 ms for 32, read from the table by hand."""
    steps = table("decode_steps")
    row = (steps["accelerator"] == "H100 SXM") & (steps["model"] == "Llama-2-70B") & (steps["tensor_parallel"] == 4)
    row &= steps["context"] == 128
    alone, many = (steps["time"][row & (steps["batch_size"] == size)][0] for size in (1, 32))
    ratios = amortisation.kernel_ratios(32)
    mine = (ratios["accelerator"] == "H100 SXM") & (ratios["model"] == "Llama-2-70B") & (ratios["context"] == 128)
    assert many / alone in ratios["ratio"][mine]
    assert claims.EVIDENCE["C05"]().number < 1.1 < claims.EVIDENCE["C05"]().edge


def test_no_measured_engine_reaches_a_thirty_second():
    """Llama-2-7B, vLLM, 4 H100, 128 in and out: the best; 32 over the ratio of its latencies."""
    evidence = claims.EVIDENCE["C06"]()
    runs = table("end_to_end")
    row = (runs["accelerator"] == "H100 SXM") & (runs["model"] == "Llama-2-7B") & (runs["engine"] == "vLLM")
    row &= (runs["tensor_parallel"] == 4) & (runs["input_tokens"] == 128) & (runs["quantity"] == "batch_latency")
    alone, many = (runs["value"][row & (runs["concurrency"] == size)][0] for size in (1, 32))
    assert evidence.number == pytest.approx(32 * alone / many)
    assert evidence.number < 29 < evidence.edge < 32


def test_a_free_slot_is_taken_at_once_under_some_rules_and_not_under_others():
    evidence = claims.EVIDENCE["C09"]()
    assert evidence.number == 0
    assert evidence.edge > 1
    assert evidence.words["slowest"] == "TGI"


def test_full_slots_are_not_full_cores():
    """32 sequences against a ridge of some 295: a tenth at best, less by the calibrated step."""
    evidence = claims.EVIDENCE["C10"]()
    assert evidence.number < 0.11
    assert evidence.number < evidence.edge < 0.9


def test_tens_of_times_is_against_one_at_a_time():
    evidence = claims.EVIDENCE["C13"]()
    assert evidence.number > 10 > evidence.edge > 1


def test_only_one_engine_of_three_waits_on_purpose():
    shares = pause_evidence.deliberate_shares()
    assert {policy for (policy, *_), share in shares.items() if share > 0} == {"tgi"}
    assert all(share == 0 for (*_, load), share in shares.items() if load == first_token.LONE)
    evidence = claims.EVIDENCE["C11"]()
    assert evidence.edge == 0 < 0.5 < evidence.number == max(shares.values())


def test_alone_is_only_as_fast_as_together_and_only_without_a_neighbour():
    """One prompt of the mean takes as long either way; Pollaczek and Khinchine by hand from the record's lengths."""
    evidence = claims.EVIDENCE["C12"]()
    assert evidence.number == pytest.approx(1, abs=0.05)
    where = {"experiment": "singly", "policy": "one by one", "load": 0.5}
    service = 1 / pause_record.value("capacity", **where)
    wait = pause_record.value("ttft", **where)
    assert wait > 0.5 * service / (2 * 0.5)  # what the wait would be if all answers were as long as the mean
    assert evidence.edge > 10


def test_the_first_token_is_slow_only_after_a_long_prompt():
    evidence = claims.EVIDENCE["C15"]()
    assert evidence.edge < 2 < evidence.number
    ratios = pause_evidence.first_over_later()
    assert ratios["vllm", "azure-conversation", "H100 SXM", 0.0] == pytest.approx(evidence.number)


def test_boarding_takes_more_of_the_time_where_prompts_are_longer():
    found = pause_evidence.boarding_shares()
    ratio = found["input_tokens"] / found["output_tokens"]
    medians = [float(np.median(found["share"][(ratio == one) & (found["concurrency"] >= 32)])) for one in (0.125, 1, 8)]
    assert medians == sorted(medians)
    evidence = claims.EVIDENCE["C16"]()
    assert (evidence.number, evidence.edge) == pytest.approx(tuple(medians[1:]))
    assert evidence.number > 0.01
    busy = found["concurrency"] >= 32
    assert evidence.words["points"] == str(np.count_nonzero(busy & ((ratio == 1) | (ratio == 8))))
    prefill = roofline.prefill_step(hardware.hardware("H100 SXM"), models.model("Llama-3-8B"), 8192)
    assert evidence.words["halt"] == quantity(float(prefill.time), "s")


def test_lengths_vary_by_the_tails_of_the_widest_workload():
    """ServeGen's chat model: 1 token at .1 %; by hand 1,595 at 99.9 %. Azure's conversations: 8 and 954."""
    evidence = claims.EVIDENCE["C07"]()
    assert evidence.number == pytest.approx(1595 / 1, rel=0.01)
    assert evidence.edge == pytest.approx(954 / 8, rel=0.01)
    chat = coach_evidence.measured_outputs()["servegen-chat"]
    assert coach_evidence.share_within(chat, 2) == pytest.approx(0.135, abs=0.002)
    assert 1 - coach_evidence.share_within(chat, 1999) == pytest.approx(0.0007, abs=1e-4)


def test_slots_are_wasted_by_the_longest_of_thirty_two():
    """Azure's conversations: E[max of 32] / E = 2.66, computed independently from all requests."""
    evidence = claims.EVIDENCE["C08"]()
    assert evidence.number == pytest.approx(1 - 1 / 2.66, abs=0.005)
    assert 0.1 < evidence.edge < evidence.number


def test_the_words_of_the_coach_say_what_its_ratios_leave():
    """Slots in use are the mean over the longest; what is left while others leave is against the same steps."""
    words, laws = claims.EVIDENCE["C08"]().words, coach_evidence.measured_outputs()
    ratios = sorted(float(max_ratio(law, 32)) for law in laws.values())
    assert words["least"] == quantity(1 - 1 / ratios[0], "%")
    assert words["most"] == quantity(1 - 1 / ratios[-1], "%")
    ordered = sorted_max_ratio(laws[words["mildest"]], 32, 16)
    assert (words["ordered"], words["gathered"]) == (quantity(1 - 1 / ordered, "%"), "16")
    machine, subject = hardware.hardware("H100 SXM"), models.model("Llama-3-8B")
    context = int(words["context"].split("\N{NO-BREAK SPACE}")[0].replace(",", ""))
    assert memory.largest_batch(machine, subject, context) >= 32 > memory.largest_batch(machine, subject, context + 1)


def test_the_words_of_the_lengths_are_their_shares():
    words, laws = claims.EVIDENCE["C07"]().words, coach_evidence.measured_outputs()
    widest = laws[words["widest"]]
    levels = (np.arange(100_000) + 0.5) / 100_000
    drawn = length_quantile(widest, levels)
    assert words["short"] == quantity(np.mean(drawn <= 2), "%", digits=2)
    assert words["long"] == quantity(np.mean(drawn >= 2000), "%", digits=1)
    with pytest.raises(ValueError, match="tokens"):
        coach_evidence.share_within(widest, 0)


def test_the_words_of_a_shared_trip_are_those_of_the_tables():
    engines, kernels = amortisation.engine_ratios(32), amortisation.kernel_ratios(32)
    fits = engines["fits"] == "yes"
    words = claims.EVIDENCE["C05"]().words
    ends = [engines["ratio"][fits].min(), engines["ratio"][fits].max()]
    assert [words["engine_least"], words["engine_most"]] == [quantity(end, "times") for end in ends]
    evidence = claims.EVIDENCE["C06"]()
    falls = 32 / engines["ratio"]
    whole = {
        "best": falls[fits].max(), "typical": np.median(falls[fits]), "worst": falls[fits].min(),
        "waves": np.median(falls[~fits]), "kernels": 32 / kernels["ratio"].min(),
    }  # fmt: skip
    assert {name: words for name, words in evidence.words.items() if name in whole} == {
        name: quantity(round(fall), "") for name, fall in whole.items()
    }
    assert evidence.edge == pytest.approx(32 / kernels["ratio"].min())


def test_the_words_of_the_pause_are_those_of_the_record():
    where = {"workload": "azure-conversation", "accelerator": "H100 SXM", "model": "Llama-3-8B"}
    found = pause_record.value("held_back", experiment="parts", policy="tgi", load=0.5, **where)
    words = claims.EVIDENCE["C11"]().words
    assert words["tgi_half"] == quantity(found, "s")
    runs = table("served_first_tokens")
    told = runs["held_back"] > 0
    share = quantity(np.median((runs["held_back"] / runs["predicted"])[told]), "%", digits=2)
    assert (words["told"], words["told_runs"]) == (share, str(np.count_nonzero(told)))
    words = claims.EVIDENCE["C12"]().words
    lone = {"experiment": "singly", "policy": "one by one", "load": 0.5, **where}
    near = {"experiment": "parts", "policy": "vllm", "load": first_token.NEAR, **where}
    most = pause_record.arrival_rate(**near) / first_token.NEAR
    assert words["capacity"] == quantity(most / pause_record.value("capacity", **lone), "times", digits=2)


def test_the_words_of_an_answer_add_up_its_tokens():
    """The first token and one pace for each of the others, of a chat answer of the mean length."""
    evidence = claims.EVIDENCE["C15"]()
    where = {"experiment": "parts", "policy": "vllm", "load": 0.0, "workload": "azure-conversation"}
    where |= {"accelerator": "H100 SXM", "model": "Llama-3-8B"}
    first, later = (pause_record.value(name, **where) for name in ("ttft", "tpot"))
    lengths = table("workloads")
    (mean,) = lengths["output_mean"][lengths["workload"] == "azure-conversation"]
    whole = first + (mean - 1) * later
    assert (evidence.words["answer"], evidence.words["share"]) == (quantity(whole, "s"), quantity(first / whole, "%"))


def test_the_words_of_the_bus_are_those_of_its_runs():
    words = claims.EVIDENCE["C10"]().words
    machine, subject = hardware.hardware(loop_bus.MACHINE), models.model(loop_bus.MODEL)
    most = int(memory.largest_batch(machine, subject, 1024))
    used = loop_bus.arithmetic_used([32, most], 1024)
    law = MeasuredLengths(workload=loop_bus.WORKLOAD, quantity="output")
    assert (words["most"], words["context"]) == (quantity(most, ""), quantity(1024, ""))
    assert [words["used"], words["used_most"]] == [quantity(float(share), "%", digits=2) for share in used]
    assert words["slots_coach"] == quantity(1 / float(max_ratio(law, 32)), "%", digits=2)


def test_the_words_of_the_wall_are_those_of_the_catalogue():
    """Without the wafer; the example's 100 GB need nine tenths of a memory, or less."""
    off_chip = [one for one in hardware.catalogue().values() if one.name != "Cerebras WSE-2"]
    ridges = [one.flop_rates["bf16"] / one.bandwidth for one in off_chip if "bf16" in one.flop_rates]
    words = claims.EVIDENCE["C01"]().words
    assert words["ridge_most"] == quantity(max(ridges), "")
    words = claims.EVIDENCE["C03"]().words
    fitting = sum(memory.USABLE_SHARE * one.capacity >= 100e9 for one in off_chip)
    assert (words["fitting"], words["all"]) == (str(fitting), str(len(off_chip)))
    assert claims.EVIDENCE["C03"]().edge == pytest.approx(0.8)
    assert claims.EVIDENCE["C03"]().number == pytest.approx(1e-4 / 1.0107e-4, rel=1e-3)
    words = claims.EVIDENCE["C17"]().words
    assert words["bandwidth_ratio"] == quantity(4.8 / 3.35, "times")


def test_the_words_of_the_price_are_in_dollars_a_million_and_by_the_hour():
    words = claims.EVIDENCE["C14"]().words
    one = Deployment(hardware=hardware.hardware("H100 SXM"), model=models.model("Llama-3-8B"), dtype="fp8")
    made, rent = offer(one, traffic_of("azure-conversation")), prices.rent("H100 SXM")
    ends = [1e6 * end.blended for end in (made.low, made.middle, made.high)]
    assert words["blended"] == quantity_range(*ends, "USD")
    assert words["server"] == quantity_range(*(8 * 3600 * end for end in (rent.low, rent.middle, rent.high)), "USD/h")
    prices_of = [article.token_price(32, rent=end) for end in ("low", "middle", "high")]
    assert words["article"] == quantity_range(*prices_of, "USD")


def test_other_lengths_get_the_other_wording_of_the_coach(monkeypatch):
    """Equal lengths waste no slot and do not vary; lengths of 2 and 2,000 alone do both."""
    constant, wild = LengthLaw(law="constant", mean=200), LengthLaw(law="pareto", mean=3000, cv=np.inf)
    monkeypatch.setattr(coach_evidence, "measured_outputs", lambda: {"one": constant, "two": constant})
    assert judge(article.claims()["C07"], claims.EVIDENCE["C07"]()).word == FAILS
    assert judge(article.claims()["C08"], claims.EVIDENCE["C08"]()).word == FAILS
    monkeypatch.setattr(coach_evidence, "measured_outputs", lambda: {"one": wild, "two": wild})
    monkeypatch.setattr(coach_evidence, "SPREAD", (0.001, 0.999999999))
    assert judge(article.claims()["C07"], claims.EVIDENCE["C07"]()).word == HOLDS
    assert judge(article.claims()["C08"], claims.EVIDENCE["C08"]()).word == HOLDS


def test_the_articles_price_by_hand():
    """32 users in 0.03 s + 32 x 0.0001 s on 8 x 3.99 USD/h: 0.0332 s x 31.92 / 3,600 / 32 = 9.20 USD a million."""
    assert article.token_price(32) == pytest.approx(1e6 * 31.92 / 3600 * 0.0332 / 32)
    assert article.token_price(math.inf) == pytest.approx(0.8867, abs=1e-4)


def test_the_price_of_a_token_is_judged_in_cents_and_in_fen():
    """The same cost, in dollars and, at 7.0779, in yuan; between a few fen and a few cents."""
    evidence = claims.EVIDENCE["C14"]()
    assert evidence.edge == pytest.approx(7.0779 * evidence.number)
    assert 0.09 / 7.0779 < evidence.number < 0.09
    assert claims.verdict("C14").word == LIMITED


def test_fen_are_true_of_the_machine_on_which_the_same_tokens_cost_least():
    """No machine that is rented out makes them for less, and what is not covered is not asked."""
    name, made = price_evidence.cheapest()
    assert name in prices.rented()
    assert name in frontier.covered(prices.OPEN_TERMS)
    for other in ("H100 SXM", "H100 NVL", "B200 SXM", "L40S", "RTX 5090"):
        one = Deployment(hardware=hardware.hardware(other), model=models.model("Llama-3-8B"), dtype="fp8")
        assert made.middle.blended < offer(one, traffic_of("azure-conversation")).middle.blended
    price, said = quantity(7.0779e6 * made.middle.blended, "CNY"), price_evidence.in_fen()
    assert f"{name} first, on which no engine was held against the law: {price}" in said
    assert name not in engine_step.held_against()
    assert said in claims.verdict("C14").sentence


def test_dearer_rents_change_the_verdict_on_the_price(monkeypatch):
    """Rents ten times as high: no longer cents. Twenty times as low: even fen."""
    claim, lines = article.claims()["C14"], prices.listings()
    for factor, word, fen in ((10, FAILS, "not in fen on any"), (1, LIMITED, "only on"), (1 / 20, HOLDS, "only on")):
        changed = tuple(
            replace(line, low=factor * line.low, high=factor * line.high) if line.kind == "rental" else line
            for line in lines
        )
        monkeypatch.setattr(prices, "listings", lambda changed=changed: changed)
        evidence = claims.EVIDENCE["C14"]()
        assert judge(claim, evidence).word == word
        assert fen in evidence.words["fen"]
