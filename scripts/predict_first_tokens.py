"""Predict every public time to the first token, and write it down beside the measured one.

    python scripts/predict_first_tokens.py           writes lib/data/served_first_tokens.csv
    python scripts/predict_first_tokens.py --check   compares, writes nothing; takes minutes

Reads ``end_to_end.csv``. Prefills of whole batches are sums of kernels. Each closed loop is simulated as its benchmark
states its load (`lib.closed_loop`). No coefficient has seen the accelerator that it is asked about, nor, for the 8B
model, the model: those of the step come from times per output token of the other accelerators; how fast prompts are
read, from their first tokens at the least load with the longest prompts, the only first tokens that any fit has seen.
``at_home`` is the easier test, for documented clients: the same from the accelerator, engine and precision itself, with
the whole (input, output) shape left out of the step, and the prompts' speed from the same few runs.
"""

import argparse
import csv
import functools
import io
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from lib import closed_loop, public_first_tokens, serving  # noqa: E402
from lib.calibrated_step import CalibratedStep  # noqa: E402
from lib.deployment import Deployment, precision  # noqa: E402
from lib.hardware import hardware, several  # noqa: E402
from lib.layer_fit import chosen  # noqa: E402
from lib.measured import table  # noqa: E402
from lib.model import model  # noqa: E402
from lib.roofline import prefill_step  # noqa: E402

OUT = ROOT / "lib" / "data" / "served_first_tokens.csv"
SEED, PULL = 20_261_130, serving.PULLS[-1]
FACTORS = np.arange(1.0, 5.01, 0.25)
LEAST_LOAD = {"concurrency": 4, "input_tokens": 8192, "output_tokens": 1024}
PROMPTS = [at for at, term in enumerate(serving.TERMS) if term.startswith("prefill")]
NAMES = ("accelerator", "model", "engine", "precision")
SIZES = ("tensor_parallel", "concurrency", "input_tokens", "output_tokens")
COLUMNS = (
    *NAMES, *SIZES, "regime", "time", "predicted", "at_home", "crowd", "held_back", "step_alone",
    "bound", "prompt_factor", "source",
)  # fmt: skip


@functools.cache
def runs(quantity):
    """Return the closed loops of ``end_to_end.csv``."""
    found = dict(table("end_to_end"))
    return chosen(found, found["quantity"] == quantity)


def loop(at):
    """Return one of them as a `ClosedLoop`."""
    found = runs("ttft")
    deployment = Deployment(
        hardware=hardware(found["accelerator"][at]), model=model(found["model"][at]), dtype=found["precision"][at],
        devices=int(found["tensor_parallel"][at]),
    )  # fmt: skip
    users, into, out = (int(found[name][at]) for name in SIZES[1:])
    return closed_loop.ClosedLoop(
        deployment=deployment, engine=found["engine"][at], users=users, input_tokens=into, output_tokens=out
    )


def simulated(at, coefficients):
    """Return the first tokens of a run; the same lengths for the same load, whatever the coefficients."""
    run = loop(at)
    rng = np.random.default_rng([SEED, run.users, run.input_tokens, run.output_tokens])
    return closed_loop.first_tokens(run, tuple(coefficients), rng)


def fitted(accelerator):
    """Return the coefficients from all other accelerators: of the step, and with the time of prompts beside them."""
    paces = runs("tpot")
    rest = paces["accelerator"] != accelerator
    step = serving.fitted(serving.terms(paces)[rest], paces["value"][rest], pull=PULL)
    factor = prompt_factor(step, runs("ttft")["accelerator"] != accelerator)
    return step, _with_factor(step, factor), factor


def prompt_factor(step, known):
    """Return how many times the bound a prompt takes, as the first tokens at the least load among these runs show."""
    found = runs("ttft")
    for name, wanted in LEAST_LOAD.items():
        known = known & (found[name] == wanted)
    misses = []
    for factor in FACTORS:
        tried = _with_factor(step, factor)
        made = [simulated(at, tried).whole for at in np.flatnonzero(known)]
        misses.append(np.median(np.abs(np.log(made / found["value"][known]))))
    return float(FACTORS[np.argmin(misses)])


@functools.cache
def at_home(names, shape):
    """Return the coefficients of a configuration without the times per output token of a whole shape."""
    own, paces = _of(runs("ttft"), names), runs("tpot")
    kept = _of(paces, names) & ~((paces["input_tokens"] == shape[0]) & (paces["output_tokens"] == shape[1]))
    step = serving.fitted(serving.terms(paces)[kept], paces["value"][kept], pull=serving.PULLS[1])
    return _with_factor(step, prompt_factor(step, own))


def _of(found, names):
    return np.all([found[column] == name for column, name in zip(NAMES, names, strict=True)], axis=0)


def _with_factor(step, factor):
    changed = np.array(step)
    changed[PROMPTS] = factor
    return changed


def rows_of(names):
    """Return the rows of one accelerator, model, engine and precision, by their places."""
    found = runs("ttft")
    step, whole, factor = fitted(names[0])
    made = {}
    for at in np.flatnonzero(_of(found, names)):
        run, predicted = loop(at), simulated(at, whole)
        group, formats = several(run.deployment.hardware, run.deployment.devices), precision(run.deployment)
        numbers = {
            "time": found["value"][at], "predicted": predicted.whole, "crowd": predicted.crowd,
            "held_back": predicted.held_back, "step_alone": simulated(at, step).whole, "prompt_factor": factor,
            "bound": prefill_step(group, run.deployment.model, run.input_tokens, precision=formats).time,
        }  # fmt: skip
        made[at] = (
            {name: found[name][at] for name in NAMES} | {name: f"{found[name][at]:g}" for name in SIZES}
            | {name: f"{float(value):.5g}" for name, value in numbers.items()}
            | {"regime": closed_loop.regime(run), "at_home": home(at, names), "source": found["source"][at]}
        )  # fmt: skip
    return made


def home(at, names):
    """Return the first token of a documented run from its own accelerator, engine and precision, as text."""
    run = loop(at)
    if closed_loop.regime(run) == closed_loop.REGIMES[-1]:
        return ""
    return f"{simulated(at, at_home(names, (run.input_tokens, run.output_tokens))).whole:.5g}"


def prefills():
    """Yield the rows of whole batches that nobody waits for: kernels alone."""
    public = dict(table("end_to_end"))
    found = chosen(public, (public["quantity"] == "prefill_time") & (public["accelerator"] != "MI300X"))
    for at, time in enumerate(found["value"]):
        devices, batch, prompt = (int(found[name][at]) for name in SIZES[:3])
        step = CalibratedStep(accelerator=found["accelerator"][at], model=found["model"][at], devices=devices)
        yield (
            {name: found[name][at] for name in NAMES} | {name: f"{found[name][at]:g}" for name in SIZES}
            | {"regime": public_first_tokens.ALONE[devices > 1], "time": f"{time:.5g}", "source": found["source"][at]}
            | {"predicted": f"{public_first_tokens.summed_kernels(step, batch, prompt):.5g}"}
        )  # fmt: skip


def content(workers=1):
    """Return the table as text."""
    found = runs("ttft")
    configurations = [*dict.fromkeys(zip(*(found[name].tolist() for name in NAMES), strict=True))]
    made = {}
    with ProcessPoolExecutor(workers) as pool:
        for part in pool.map(rows_of, configurations):
            made |= part
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(made[at] for at in sorted(made))
    writer.writerows(prefills())
    return text.getvalue()


def main(words=None):
    """Write or check the table; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(words)
    made = content(given.workers)
    if given.check:
        differs = OUT.read_text(encoding="utf-8") != made
        print(f"{OUT.name} {'differs' if differs else 'is what the code gives'}")
        return int(differs)
    OUT.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
