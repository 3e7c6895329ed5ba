import gzip
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.measured import table
from lib.trace import Trace, arrival_statistics, index_of_dispersion, replayed, trace_in

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
)
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n"
)
MOONCAKE = "".join(
    json.dumps({"timestamp": at, "input_length": 6758, "output_length": out, "hash_ids": [0, 1]}) + "\n"
    for at, out in ((3000, 500), (3050, 490))
)


@pytest.mark.parametrize(
    ("name", "text", "times", "prompts", "outputs"),
    [
        ("azure.csv", AZURE, [0, 4.314579], [374, 396], [44, 109]),
        ("newer_azure.csv", AZURE.replace("5900,", "5900+00:00,"), [0, 4.314579], [374, 396], [44, 109]),
        ("burst.csv", BURSTGPT, [0, 40], [472, 1087], [18, 0]),
        ("mooncake.jsonl", MOONCAKE, [0, 0.05], [6758, 6758], [500, 490]),
    ],
)
def test_each_published_format_is_read_as_it_is_and_packed(tmp_path, name, text, times, prompts, outputs):
    """Lines of the originals: Azure 2023 (100 ns stamps), BurstGPT (s; a failure has no response), Mooncake (ms)."""
    (tmp_path / name).write_text(text)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    for file in (tmp_path / name, tmp_path / f"{name}.gz"):
        trace = trace_in(file)
        assert_allclose(trace.arrival_time, times, atol=1e-7)
        assert [*trace.prompt_length] == prompts
        assert [*trace.output_length] == outputs


def test_requests_out_of_order_are_put_in_order(tmp_path):
    (tmp_path / "t.csv").write_text(BURSTGPT + "20,ChatGPT,1,2,3,API log\n")
    trace = trace_in(tmp_path / "t.csv")
    assert [*trace.arrival_time] == [0, 15, 40]
    assert [*trace.output_length] == [18, 2, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AZURE.replace("109", "many"), r"t.csv line 3: GeneratedTokens cannot be read, got 'many'"),
        (AZURE.replace("109", "-1"), r"t.csv line 3: GeneratedTokens must be finite and at least 0, got '-1'"),
        (AZURE.replace("109", "nan"), r"t.csv line 3: GeneratedTokens (cannot be read|must be finite).*'nan'"),
        (AZURE.replace("109", "1.5"), r"t.csv line 3: GeneratedTokens cannot be read, got '1.5'"),
        (AZURE.replace(",109", ""), r"t.csv line 3: GeneratedTokens cannot be read, got None"),
        (AZURE.replace("2023-11-16 18:15:46.6805900", "noon"), r"t.csv line 2: TIMESTAMP cannot be read, got 'noon'"),
        (AZURE.replace("\n", "\n\n", 1).replace("109", "many"), r"t.csv line 4: GeneratedTokens cannot be read"),
        (MOONCAKE + "{oops\n", r"t.csv line 3: must be a JSON object, got '{oops'"),
        (MOONCAKE + "[1]\n", r"t.csv line 3: must be a JSON object, got '\[1\]'"),
        (MOONCAKE + '{"timestamp": 1}\n', r"t.csv line 3: input_length cannot be read, got None"),
        ("when,how\n1,2\n", r"t.csv must have the columns of one of TIMESTAMP, ContextTokens.*, got when, how"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", r"t.csv must hold requests, got none"),
        ("", r"t.csv must hold requests, got none"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        trace_in(tmp_path / "t.csv")


def test_statistics_by_hand():
    """Gaps 1, 3, 2, 2: mean 2, variance 1/2. Windows of 2 s from 0 hold 2, 0, 1, 1 (the last is outside)."""
    times = [5, 6, 9, 11, 13]
    found = arrival_statistics(times)
    assert (found.count, found.duration, found.rate, found.longest_gap) == (5, 8, 0.5, 3)
    assert_allclose(found.cv, np.sqrt(0.5) / 2)
    assert_allclose(index_of_dispersion(times, 2), 0.5)


def test_poisson_arrivals_have_variation_and_dispersion_of_one():
    times = np.random.default_rng(1).exponential(1, 200_000).cumsum()
    assert_allclose(arrival_statistics(times).cv, 1, atol=0.02)
    assert_allclose([index_of_dispersion(times, window) for window in (1, 10)], 1, atol=0.05)


def test_a_trace_at_another_rate_keeps_its_variation_and_lengths():
    trace = Trace(np.array([0.0, 1, 4, 6, 8]), np.arange(5), np.arange(5))
    faster = replayed(trace, 5.0)
    assert_allclose(faster.arrival_time, np.array([0, 1, 4, 6, 8]) / 10)
    assert faster.output_length is trace.output_length


@pytest.mark.parametrize("times", [[0, 1], [[0, 1, 2]], [1, 1, 1]])
def test_too_few_or_simultaneous_arrivals_are_refused(times):
    with pytest.raises(ValueError, match=r"arrival_time must .*got"):
        arrival_statistics(times)


def test_arrivals_that_fall_are_refused():
    with pytest.raises(ValueError, match="arrival_time must not fall, got 2 then 1"):
        arrival_statistics([0, 2, 1])


def test_the_arrivals_of_the_measured_traces_are_as_published_here():
    """Rates, variation and dispersion at 1, 10 and 60 s, computed independently from the same files."""
    arrivals = table("arrivals")
    found = {
        name: [arrivals[column][row] for column in ("rate", "cv", "dispersion_1s", "dispersion_10s", "dispersion_60s")]
        for row, name in enumerate(arrivals["workload"])
        if arrivals["scope"][row] == "whole trace"
    }
    assert_allclose(found["azure-conversation"], [5.53, 1.09, 1.39, 3.86, 16.1], rtol=5e-3)
    assert_allclose(found["azure-code"], [2.57, 13.2, 13.2, 71.6, 164], rtol=5e-3)
    assert_allclose(found["mooncake"], [3.91, 1.01, 1.09, 1.18, 1.19], rtol=5e-3)
