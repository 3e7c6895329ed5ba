"""The reader's case: close to the sharper models, and the same numbers in the page as in Python."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from lib import book, price_charts, prices, theme, traced_case, your_case
from lib.batch_limit import batch_limit
from lib.deployment import (
    DEPLOYED,
    Deployment,
    Traffic,
    assembled,
    machine_numbers,
    memory_limit,
    model_numbers,
    resident_context,
    scales,
)  # fmt: skip
from lib.footprint import dtype_bytes
from lib.hardware import hardware
from lib.model import model
from lib.operating_point import at_load, capped, full_rate, replica
from tests import browsing

START = {"accelerator": "H100 SXM", "model": "Llama-3-8B", "dtype": "fp8", "devices": 1, "prompt": 1024,
         "output": 256, "rate": 20, "target_ms": 50, "rent": 0}  # fmt: skip
SETTINGS = 200
NUMBER = re.compile(r"(\d[\d,]*(?:\.\d+)?)")


def of(machine, name, dtype="fp8", devices=1):
    return Deployment(hardware=hardware(machine), model=model(name), dtype=dtype, devices=devices)


def case(rate, target=0.05, prompt=1024, output=256, rents=(2.0, 3.0, 6.0)):
    return your_case.Case(prompt, output, rate, target, *rents)


def by_python(setting):
    """Return what Python computes for a setting of the page's controls."""
    asked = prices.rent(setting["accelerator"])
    rents = {f"rent_{end}": setting["rent"] or 3600 * getattr(asked, end) for end in your_case.ENDS}
    sizes = dtype_bytes(setting["dtype"]), dtype_bytes("bf16" if setting["dtype"] == "bf16" else "fp8")
    numbers = assembled(machine_numbers(hardware(setting["accelerator"]), setting["dtype"]),
                        model_numbers(model(setting["model"])), float(setting["devices"]), sizes)  # fmt: skip
    given = your_case.Case(setting["prompt"], setting["output"], setting["rate"], setting["target_ms"] / 1000, **rents)
    found = {name: float(value) for name, value in your_case.estimate(numbers, given).items()}
    return found, setting | given._asdict() | found


@pytest.mark.parametrize("deployed", [
    of("H100 SXM", "Llama-3-8B"), of("H100 SXM", "Llama-3-70B", "fp8", 4), of("L40S", "Llama-3-8B"),
    of("B200 SXM", "Qwen3-30B-A3B"),
], ids=lambda one: f"{one.model.name} {one.hardware.name}")  # fmt: skip
@pytest.mark.parametrize("load", [0.2, 0.5, 0.89])
def test_the_shortcuts_are_close_to_the_queue_with_its_cap(deployed, load):
    """One replica at a share of its full rate: the same batch limit, pace within 7 %, first token within 15 %."""
    traffic = Traffic(prompt_tokens=1024, output_tokens=256, output_cv2=your_case.SPREAD)
    made = replica(deployed, traffic)
    limit = batch_limit(made, 0.05)
    allowed = capped(made, limit.slots)
    rate = load * full_rate(allowed)
    exact, quick = at_load(allowed, rate), your_case.estimate(scales(deployed), case(rate))
    assert quick["middle_slots"] == limit.slots
    assert quick["middle_replicas"] == 1
    assert quick["middle_token"] == pytest.approx(float(exact.time_per_token), rel=0.07)
    assert quick["middle_first"] == pytest.approx(float(exact.first_token_time), rel=0.15)
    assert quick["memory"] == min(memory_limit(scales(deployed), resident_context(traffic)), your_case.MOST_SLOTS)


def test_the_wait_where_it_matters_is_that_of_the_chain():
    """A few slots at nine tenths: seconds, where a server of constant speed would have milliseconds."""
    traffic = Traffic(prompt_tokens=4096, output_tokens=1024, output_cv2=1)
    deployed = of("L40S", "Llama-3-8B")
    allowed = capped(replica(deployed, traffic), batch_limit(replica(deployed, traffic), 0.03).slots)
    rate = 0.899 * full_rate(allowed)
    exact = at_load(allowed, rate).wait
    assert exact > 1
    found = your_case.estimate(scales(deployed), case(rate, 0.03, 4096, 1024))
    assert found["middle_wait"] == pytest.approx(float(exact), rel=0.2)


def test_more_traffic_takes_more_replicas_and_each_stays_below_nine_tenths():
    for rate in (5, 50, 500):
        found = your_case.estimate(scales(of("H100 SXM", "Llama-3-8B")), case(rate))
        served = found["middle_slots"] / found["middle_step"] / 256
        each = rate / found["middle_replicas"]
        assert each <= your_case.KEPT_FREE * served * (1 + 1e-12)
        if found["middle_replicas"] > 1:
            assert rate / (found["middle_replicas"] - 1) > your_case.KEPT_FREE * served


def test_the_ends_join_the_fast_law_with_the_low_rent():
    found = your_case.estimate(scales(of("H100 SXM", "Llama-3-8B")), case(100.0))
    assert found["low_blended"] < found["middle_blended"] < found["high_blended"]
    assert found["low_slots"] > found["middle_slots"] > found["high_slots"]
    for end, rent in zip(your_case.ENDS, (2.0, 3.0, 6.0), strict=True):
        assert found[f"{end}_blended"] == pytest.approx(
            1e6 * found[f"{end}_replicas"] * rent / 3600 / 100 / 1280
        )
        assert 1024 * found[f"{end}_input"] + 256 * found[f"{end}_output"] == pytest.approx(
            1280 * found[f"{end}_blended"]
        )


def test_what_does_not_fit_and_what_is_too_slow_say_so():
    large = {**START, "accelerator": "RTX 4090", "model": "Llama-3-70B"}
    assert your_case.in_words(by_python(large)[1]).endswith(your_case.DOES_NOT_FIT)
    slow = {**START, "model": "Llama-3-70B", "devices": 2, "target_ms": 5}
    assert your_case.in_words(by_python(slow)[1]).endswith(your_case.TOO_SLOW)
    words = your_case.in_words(by_python(START)[1])
    assert words.startswith("Llama-3-8B in fp8 on 1 x H100 SXM, 1,024 tokens in and 256 out, 20.0 requests/s")
    plans = r"Middle: max_num_seqs \d+, step .*\nFast .*: max_num_seqs \d+, .*\nSlow .*: max_num_seqs \d+,"
    assert re.search(plans, words)


def test_a_deployment_and_the_loose_assembly_agree_where_both_exist():
    for deployed in (of("H100 SXM", "gpt-oss-120b", "fp8", 4), of("L40S", "Mixtral-8x7B", "bf16", 2)):
        sizes = dtype_bytes(deployed.dtype), dtype_bytes("bf16" if deployed.dtype == "bf16" else "fp8")
        loose = assembled(machine_numbers(deployed.hardware, deployed.dtype), model_numbers(deployed.model),
                          float(deployed.devices), sizes)  # fmt: skip
        assert loose == scales(deployed)


@pytest.fixture(scope="module")
def live(browser, tmp_path_factory):
    """The figure alone on a page, drawn by the bundle that the book ships."""
    folder = tmp_path_factory.mktemp("case")
    (folder / "vega.js").write_text(book.bundle_of_vega(), encoding="utf-8")
    traced = traced_case.traced_case()
    spec = theme.specification(price_charts.your_numbers(
        traced.catalogues, START, traced.traced, caveat="Caveat.", description="A description of what the chart shows."
    ))  # fmt: skip
    (folder / "case.html").write_text(
        '<div id="plot" style="width:700px"></div><script src="vega.js"></script><script>const spec = '
        + json.dumps(spec).replace("</", "<\\/")
        + ';vegaEmbed("#plot", spec, {actions: false}).then(({view}) => { window.view = view; });</script>',
        encoding="utf-8",
    )
    context = browsing.open_context(browser)
    page = context.new_page()
    page.goto(f"file://{folder}/case.html")
    page.wait_for_function("window.view")
    yield page
    context.close()


SET = """async ([setting, names]) => {
  for (const [name, value] of Object.entries(setting)) view.signal(name, value);
  await view.runAsync();
  return [Object.fromEntries(names.map((name) => [name, view.signal(name)])), view.signal("text")];
}"""


def settings():
    """Random settings of the controls, on their steps."""
    rng, models = np.random.default_rng(20261130), traced_case.models()
    rented = traced_case.catalogues()["accelerator"][0]
    for _ in range(SETTINGS):
        yield {
            "accelerator": str(rng.choice(rented)), "model": str(rng.choice(models)),
            "dtype": str(rng.choice(DEPLOYED)), "devices": int(rng.choice(traced_case.DEVICES)),
            "prompt": int(rng.integers(1, 1025)) * 16, "output": int(rng.integers(1, 513)) * 16,
            "rate": int(rng.integers(1, 401)) / 2, "target_ms": int(rng.integers(5, 201)),
            "rent": float(rng.choice([0, 0, 0.35, 2.5, 14.95])),
        }  # fmt: skip


@pytest.mark.browser
def test_the_page_computes_what_python_computes_for_two_hundred_random_settings(live):
    """Every result at every end to 1e-6; the text word for word, its numbers to three digits."""
    fitting = 0
    for setting in settings():
        expected, values = by_python(setting)
        found, text = live.evaluate(SET, [setting, [*expected]])
        assert found == pytest.approx(expected, rel=1e-6), setting
        shown, said = (NUMBER.split(words) for words in (text, your_case.in_words(values) + "Caveat."))
        assert shown[::2] == said[::2], setting
        # A half may be rounded up here and down there: half a unit of the third digit.
        numbers = [[float(number.replace(",", "")) for number in words[1::2]] for words in (shown, said)]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-2, abs=1), setting
        fitting += expected["middle_slots"] > 0
    assert fitting > SETTINGS / 4


def test_one_rent_changed_in_the_table_changes_the_page(monkeypatch):
    lines = prices.listings()
    changed = tuple(replace(one, low=2 * one.low, high=2 * one.high) if one.kind == "rental" else one for one in lines)
    before = traced_case.catalogues()["accelerator"][1]["table_middle"]
    monkeypatch.setattr(prices, "listings", lambda: changed)
    assert traced_case.catalogues()["accelerator"][1]["table_middle"] == pytest.approx([2 * one for one in before])
