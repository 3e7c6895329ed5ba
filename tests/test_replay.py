"""The command that replays a run, on a small one of our own, and on two of vLLM."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lib.engines import vllm
from lib.kernel_table import kernel_table_in
from lib.recorded_run import RecordedRun, recorded_run
from lib.replay import fitted_host_time, main
from lib.simulation import simulate
from lib.trace import Trace
from tests.test_kernel_table import FOLDER

REQUESTS = str(FOLDER / "requests.csv")
LIMITS = ["--kv-tokens", "1024", "--max-num-seqs", "8", "--max-num-batched-tokens", "64"]


def test_it_prints_and_saves_the_table(capsys, tmp_path):
    saved = tmp_path / "table.csv"
    assert main([REQUESTS, *LIMITS, "--kernels", str(FOLDER), "--layers", "2", "--save", str(saved)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 requests, 15 iterations, 0 preemptions, 0 refused")
    assert "TPOT p99" in said
    assert len(saved.read_text().splitlines()) == 1 + 1 + 3 * 5


@pytest.mark.parametrize("engine", ["vllm", "tgi", "sglang"])
def test_each_engine_and_an_affine_step_will_do(capsys, engine):
    """1 s an iteration, one request at a time inside: 5, 4 and 6 iterations; the second waits."""
    words = [REQUESTS, "--kv-tokens", "1024", "--max-num-seqs", "1", "--engine", engine, "--affine", "1.0"]
    assert main(words) == 0
    assert "makespan whole           15 s " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.csv", *LIMITS, "--affine", "1"], "nowhere.csv"),
        ([REQUESTS, *LIMITS, "--kernels", "nowhere"], "folder must hold one of"),
        ([REQUESTS, *LIMITS, "--affine", "0"], "fixed must be above 0, got 0"),
        ([REQUESTS, *LIMITS, "--affine", "1", "--fit-host-time", "0.1"], "goes without --fit-host-time"),
        ([REQUESTS, "--kv-tokens", "0", "--affine", "1"], "kv_tokens must be at least 1, got 0"),
    ],
)
def test_what_it_cannot_use_it_refuses_in_a_line(capsys, words, message):
    assert main(words) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert len(said.err.splitlines()) == 1
    assert not said.out


def test_hits_of_the_prefix_cache_are_data(tmp_path, capsys):
    text = "arrival_time,prompt_length,output_length,cached_length\n0,50,1,{}\n"
    ends = []
    for cached in (0, 40):
        file = tmp_path / f"{cached}.csv"
        file.write_text(text.format(cached))
        main([str(file), *LIMITS, "--affine", "1", "0", "0", "1"])
        ends.append(float(capsys.readouterr().out.split("makespan whole")[1].split()[0]))
    assert ends == [51, 11]


def recording(host_time):
    """Return a run of our own simulator, as if it had been recorded, with the policy and the kernels behind it."""
    rng = np.random.default_rng(5)
    requests = Trace(np.cumsum(rng.exponential(0.002, 200)), rng.integers(5, 60, 200), rng.integers(2, 30, 200))
    policy = vllm(2048, max_num_seqs=8, max_num_batched_tokens=64, async_scheduling=False)
    kernels = kernel_table_in(FOLDER, 2)
    made = simulate(requests, policy, replace(kernels, prompt_host_time=host_time))
    zero = np.zeros(200, int)
    return RecordedRun(requests, zero, made.first_token_time, made.finish_time), policy, kernels


@pytest.mark.parametrize("host_time", [0.0, 2e-3, 7.5e-3])
def test_the_host_time_behind_a_recording_is_found_in_its_first_tenth(host_time):
    assert_allclose(fitted_host_time(*recording(host_time)), host_time)


def test_the_host_time_comes_from_the_first_tenth_alone():
    """What comes later may be anything."""
    run, policy, kernels = recording(2e-3)
    later = run.last_token_time > 0.1 * run.last_token_time.max() + run.requests.arrival_time[0]
    spoiled = run._replace(last_token_time=np.where(later, run.last_token_time.max(), run.last_token_time))
    assert fitted_host_time(spoiled, policy, kernels) == fitted_host_time(run, policy, kernels)


def test_a_share_without_a_token_is_refused():
    run, policy, kernels = recording(0.0)
    with pytest.raises(ValueError, match="share must reach a recorded token, got 1e-06"):
        fitted_host_time(run, policy, kernels, share=1e-6)
    with pytest.raises(ValueError, match="run must have recorded times, got none"):
        fitted_host_time(run._replace(first_token_time=None), policy, kernels)


def test_the_help_names_the_columns(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "arrival_time, prompt_length, output_length" in " ".join(capsys.readouterr().out.split())


def test_the_requests_of_the_command_are_those_of_the_file():
    assert recorded_run(Path(REQUESTS)).requests.arrival_time.size == 3
