"""Break one term of a formula at a time and see whether a test goes red.

    python scripts/mutation_report.py                    all that is not known yet, until done or stopped
    python scripts/mutation_report.py --seconds 600      for so long; run again to go on
    python scripts/mutation_report.py --only bulk erlang   some modules
    python scripts/mutation_report.py --show             the record in words; tries nothing

Each mutant swaps + and -, * and /, < and <=, drops a term, a factor or a sign, or moves a number
by one. It is tried in a fork of one warm test run, on the tests that reach its function. A mutant
is killed when one of them fails or takes many times as long. Those that compute the same, with
the reason, stand in ``scripts/mutation/equivalent.csv`` and are left out of the rate.

What was found is kept in ``scripts/mutation_record.json``, function by function. A function that
has changed starts anew. Mutants come in an order of their own, so what is done is at any time a
fair sample, and its rate has an exact (Clopper-Pearson) interval. Survivors are tried again.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import ast  # noqa: E402

from scripts.mutation.equivalent import EQUIVALENT  # noqa: E402
from scripts.mutation.mutants import digest, mutants, owners  # noqa: E402

RECORD = ROOT / "scripts" / "mutation_record.json"
MODULES = ["queueing", "erlang", "multiserver", "embedded_chain", "bulk", "exponential_batch", "dynamic_batching",
           "timeout_batching", "formation", "control_limit", "order_statistics", "static_batch", "occupancy",
           "processor_sharing", "token_load", "batch_law"]  # fmt: skip
SUITES = [*(f"tests/test_{module}.py" for module in MODULES), "tests/test_theory_values.py"]
EVERY = 50  # mutants between two writes of the record
QUICK = 2.0  # seconds of tests that a mutant meets at first; survivors meet all


def source_of(module):
    """Return the text of a module."""
    return (ROOT / "lib" / f"{module}.py").read_text(encoding="utf-8")


def digests(module):
    """Return the digest of each function and constant of a module that computes, by name."""
    return {owner: digest(part) for owner, part in owners(ast.parse(source_of(module))).items()}


def all_mutants(*, compiled=True):
    """Return the mutants of all modules, in their own order."""
    found = [one for module in MODULES for one in mutants(module, source_of(module), compiled=compiled)]
    return sorted(found, key=lambda one: one.rank)


def versions():
    """Return what the mutants run with."""
    import hypothesis
    import numpy
    import pytest
    import scipy

    found = {module.__name__: module.__version__ for module in (numpy, scipy, hypothesis, pytest)}
    return {"python": platform.python_version(), **found}


def known():
    """Return the functions of the record that are still as they were, by module and name."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))["modules"] if RECORD.exists() else {}
    return {
        module: {owner: dict(found) for owner, found in record.get(module, {}).items()
                 if found["digest"] == digests(module).get(owner)}
        for module in MODULES
    }  # fmt: skip


def write(functions):
    """Write the record."""
    command = "OMP_NUM_THREADS=1 python scripts/mutation_report.py"
    record = {"command": command, "versions": versions(), "modules": functions}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def opened(functions, found):
    """Make room in the record for every function of the mutants; return those not yet tried, and the survivors."""
    now, numbers = {module: digests(module) for module in MODULES}, {}
    untried, survived = [], []
    for mutant in found:
        fresh = {"digest": now[mutant.module][mutant.owner], "mutants": 0, "tried": 0, "survivors": []}
        mine = functions[mutant.module].setdefault(mutant.owner, fresh)
        number = numbers[mutant.module, mutant.owner] = numbers.get((mutant.module, mutant.owner), 0) + 1
        mine["mutants"] = max(mine["mutants"], number)
        if number > mine["tried"]:
            untried.append(mutant)
        elif mutant.label in mine["survivors"] and mutant.name not in EQUIVALENT:
            survived.append(mutant)
    return untried, survived


def try_all(functions, untried, survived, end):
    """Return what a warm test run is to do: try what is untried on a few tests, then survivors on all of them."""

    def tried(warm, mutant, seconds):
        mine = functions[mutant.module][mutant.owner]
        kept = [label for label in mine["survivors"] if label != mutant.label]
        lives = mutant.name in EQUIVALENT or warm.killer_of(mutant, seconds=seconds) == "nothing"
        mine["survivors"] = sorted([*kept, mutant.label]) if lives else kept
        return lives

    def work(warm):
        late = [*survived]
        for seconds, waiting in ((QUICK, untried), (float("inf"), late)):
            for number, mutant in enumerate(waiting, start=1):
                if time.monotonic() >= end:
                    break
                lives = tried(warm, mutant, seconds)
                functions[mutant.module][mutant.owner]["tried"] += seconds == QUICK
                if lives and mutant.name not in EQUIVALENT:
                    late += [mutant] if seconds == QUICK else []
                    print(f"  survivor {mutant.name} (line {mutant.lines[0]})", flush=True)
                if number % EVERY == 0:
                    write(functions)
                    print(f"{number} of {len(waiting)}", flush=True)
        write(functions)

    return work


def counts(functions, modules=MODULES):
    """Return how many mutants there are, were tried, compute the same and were killed, over some modules."""
    total = dict.fromkeys(("mutants", "tried", "equivalent", "killed"), 0)
    for module in modules:
        for owner, found in functions[module].items():
            same = sum(f"{module}.{owner}: {label}" in EQUIVALENT for label in found["survivors"])
            total["mutants"] += found["mutants"]
            total["tried"] += found["tried"]
            total["equivalent"] += same
            total["killed"] += found["tried"] - len(found["survivors"])
    return total


def interval(killed, counted, level=0.95):
    """Return the exact (Clopper-Pearson) interval of a share."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = beta.ppf(tail, killed, counted - killed + 1) if killed else 0.0
    high = beta.ppf(1 - tail, killed + 1, counted - killed) if killed < counted else 1.0
    return float(low), float(high)


def line_on(name, total):
    """Return a line that says how many of the mutants were tried and killed."""
    counted = total["tried"] - total["equivalent"]
    line = (f"{name}: {total['tried']} of {total['mutants']} tried, {total['killed']} of {counted} killed "
            f"({100 * total['killed'] / max(counted, 1):.1f} %), {total['equivalent']} compute the same")  # fmt: skip
    if counted == 0 or total["tried"] == total["mutants"]:
        return line
    low, high = interval(total["killed"], counted)
    return f"{line}; 95 % interval {100 * low:.1f} to {100 * high:.1f} %"


def survivors(functions):
    """Return the names of the mutants that no test kills and nothing explains."""
    names = [f"{module}.{owner}: {label}" for module, owned in functions.items() for owner, found in owned.items()
             for label in found["survivors"]]  # fmt: skip
    return [name for name in names if name not in EQUIVALENT]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=MODULES, default=MODULES, help="modules to try")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time; run again to go on")
    parser.add_argument("--show", action="store_true", help="say what the record holds, and try nothing")
    options = parser.parse_args()
    end, functions = time.monotonic() + options.seconds, known()
    found = all_mutants(compiled=not options.show)
    untried, survived = ([one for one in part if one.module in options.only] for part in opened(functions, found))
    if (untried or survived) and not options.show:
        from scripts.mutation import warm

        warm.run(ROOT, SUITES, MODULES, try_all(functions, untried, survived, end))
    for module in MODULES:
        print(line_on(module, counts(functions, [module])))
    print(line_on("all", counts(functions)))
    for name in survivors(functions):
        print(f"  survivor {name}")


if __name__ == "__main__":
    main()
