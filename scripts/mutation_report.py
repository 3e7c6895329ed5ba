"""Break one term of a module at a time and see whether a test goes red.

    python scripts/mutation_report.py queueing --sample 200
    python scripts/mutation_report.py all --seconds 100     again and again, until it says that all are done

Each mutant swaps + and -, * and /, < and <=, drops a term, a factor or a sign, or moves a
number by one. It runs in its own process, on a copy of the project, against the module's
tests and the table of theory values. Prints the share killed and every survivor.

What was found is kept in ``scripts/mutation_record.json``, module by module, with what it was
found with. Mutants come in an order shuffled once, so what is done is at any time a fair
sample, and the next run goes on from there; a module that changed, or its tests, starts anew.
"""

import argparse
import ast
import contextlib
import copy
import hashlib
import io
import json
import multiprocessing
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

# Imported once here, not once per mutant.
import hypothesis
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.stats

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "scripts" / "mutation_record.json"
SEED = 0
MODULES = ["queueing", "erlang", "multiserver", "embedded_chain", "bulk", "exponential_batch", "dynamic_batching",
           "timeout_batching", "formation", "control_limit", "order_statistics", "static_batch", "occupancy",
           "processor_sharing", "token_load", "batch_law"]
SWAPS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
         ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.BitAnd: ast.BitOr,
         ast.BitOr: ast.BitAnd}

# Survivors that compute the same: "module.function: before -> after", and why.
HORIZON = "a horizon: how many negligible terms are kept"
NEWTON = "start or slope of Newton's method: the root is the same"
MASKED = "a stand-in where another branch decides"
EDGE = "at the edge itself both branches agree, or another line decides"
EQUIVALENT = {
    "bulk._timeout_means: cap + 1 -> cap - 1": HORIZON,
    "bulk._timeout_means: cap + 1 -> cap": HORIZON,
    "bulk._timeout_means: cap + 1 -> cap + 2": HORIZON,
    "bulk._invert: 10 / size -> 9 / size": "trades aliasing against rounding, both below the tests' tolerance",
    "bulk._invert: 10 / size -> 11 / size": "trades aliasing against rounding, both below the tests' tolerance",
    "embedded_chain._damping: spread < _STEADY -> spread <= _STEADY": EDGE,
    "embedded_chain.landing_law: np.maximum(-np.fft.fft(product).real[:cap], 0) -> "
    "np.maximum(-np.fft.fft(product).real[:cap], -1)": "only guards against rounding below 0",
    "embedded_chain._gamma_roots: turns * np.exp(-load) -> np.exp(-load)": NEWTON,
    "embedded_chain._gamma_roots: spread * load -> spread / load": NEWTON,
    "embedded_chain._gamma_roots: spread * load -> spread": NEWTON,
    "embedded_chain._gamma_roots: range(15) -> range(16)": NEWTON,
    "embedded_chain._gamma_roots: range(15) -> range(14)": NEWTON,
    "embedded_chain.starts_above: starts // 5 -> starts // 4": HORIZON,
    "embedded_chain.starts_above: starts // 5 -> starts // 6": HORIZON,
    "embedded_chain.starts_above: memory ** starts -> memory": HORIZON,
    "embedded_chain.starts_above: (cap + starts) * arrivals_law(arrivals, service_cv2, cap + starts) * memory ** "
    "starts > 1e-17 -> (cap + starts) * arrivals_law(arrivals, service_cv2, cap + starts) * memory ** starts >= "
    "1e-17": HORIZON,
    "embedded_chain.starts_above: [0] -> [1]": HORIZON,
    "embedded_chain.starts_above: [0] -> [-1]": HORIZON,
    "embedded_chain.starts_above: 8 -> 7": HORIZON,
    "embedded_chain.starts_above: 8 -> 9": HORIZON,
    "multiserver._mdc_wait_in_services: decay * terms > 40 -> decay * terms > 41": HORIZON,
    "multiserver._mdc_wait_in_services: decay * terms > 40 -> decay * terms > 39": HORIZON,
    "multiserver._crommelin_sum: (:, 0) -> (:, -1)": "there is one column",
    "queueing.ekm1_wait: (1 - stable_load) / 2 -> (1 - stable_load) / 3": "a wider bracket around the same root",
    "erlang.mmc_wait_tail: np.where(stable, spare_rate, 1.0) -> np.where(stable, spare_rate, 2.0)": MASKED,
    "erlang.mmc_wait_tail: np.where(stable, spare_rate, 1.0) -> np.where(stable, spare_rate, 0.0)": MASKED,
    "erlang.mmc_wait_tail: spare_rate > 0 -> spare_rate >= 0": EDGE,
    "occupancy._normalised: np.where(full, 0.0, -np.inf) -> np.where(full, 1.0, -np.inf)": "a factor of the whole law",
    "embedded_chain.starts_above: 8 + starts // 5 -> starts // 5": HORIZON,
    "exponential_batch._mmab_root: offered < batch_cap -> offered <= batch_cap": MASKED,
    "exponential_batch._mmab_root: batch_cap / 2 -> batch_cap / 3": MASKED,
    "exponential_batch._mmab_root: np.log(stable) - 1 -> np.log(stable) - 2": "a wider bracket around the same root",
    "timeout_batching._late: weight * np.minimum(most_arrivals * distance, 1) -> "
    "np.minimum(most_arrivals * distance, 1)": HORIZON,
    "timeout_batching._late: most_arrivals * distance -> distance": HORIZON,
    "order_statistics.geometric_max: decay < 0.05 -> decay <= 0.05": EDGE,
    "token_load.resident_tokens: np.where(prompt_length > 0, second, 0) -> np.where(prompt_length > 0, second, 1)":
        "multiplied by a prompt of 0",
    "multiserver._mdc_wait_in_services: terms + 1 -> terms + 2": HORIZON,
    "multiserver._mdc_wait_in_services: terms + 1 -> terms - 1": HORIZON,
    "embedded_chain.disc_roots: service_cv2 < _STEADY -> service_cv2 <= _STEADY": EDGE,
    "exponential_batch._mmab_root: batch_cap / 2 -> batch_cap / 1": MASKED,
    "exponential_batch._mmab_root: batch_cap / 2 -> batch_cap * 2": MASKED,
    "timeout_batching._late: np.where(load < 1, load, 0.5) -> np.where(load < 1, load, 1.5)": MASKED,
    "timeout_batching._late: 1 - load -> 1 + load": HORIZON,
    "formation.formation_wait: np.where(closes, 1 + joined, 1) -> np.where(closes, 1 + joined, 2)": MASKED,
}


def replacements(node):
    """Yield what `node` may be replaced with."""
    if isinstance(node, ast.BinOp):
        if type(node.op) in SWAPS:
            yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
            yield node.left
        if isinstance(node.op, (ast.Add, ast.Mult)):
            yield node.right
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    elif isinstance(node, ast.Attribute) and node.attr in ("minimum", "maximum"):
        yield ast.Attribute(node.value, "maximum" if node.attr == "minimum" else "minimum", node.ctx)


def places(tree):
    """Yield function name, parent, field, index and node of everything that computes."""
    stack = [(None, tree)]
    while stack:
        function, parent = stack.pop()
        if isinstance(parent, ast.FunctionDef):
            function = parent.name
        if isinstance(parent, (ast.Raise, ast.JoinedStr, ast.ImportFrom, ast.arguments)):
            continue
        for field, value in ast.iter_fields(parent):
            for index, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST):
                    yield function, parent, field, index if isinstance(value, list) else None, node
                    stack.append((function, node))


def mutants(source):
    """Return label, line and source of each mutant, a label only once."""
    tree = ast.parse(source)
    found = {}
    for number, (function, parent, field, index, node) in enumerate(places(tree)):
        # A bare number says little: show the expression around it.
        shown = parent if isinstance(node, ast.Constant) and isinstance(parent, ast.expr) else node
        before = ast.unparse(shown)
        for choice, changed in enumerate(replacements(node)):
            put(parent, field, index, changed)
            label = f"{function}: {before} -> {ast.unparse(parent if shown is parent else changed)}"
            put(parent, field, index, node)
            found.setdefault((label, node.lineno), (number, choice))
    return [(label, line, mutated(tree, *where)) for (label, line), where in found.items()]


def put(parent, field, index, node):
    """Set a child of `parent`, in a list or not."""
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def mutated(tree, number, choice):
    """Return the source with one node replaced."""
    tree = copy.deepcopy(tree)
    _, parent, field, index, node = list(places(tree))[number]
    put(parent, field, index, list(replacements(node))[choice])
    return ast.unparse(ast.fix_missing_locations(tree))


def run_tests(folder, suite):
    """Exit with pytest's code; called in a process of its own."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--assert=plain", suite])
    os._exit(int(code))


def outcome(folder, suite, timeout):
    """Return whether the tests pass: "survived", "killed" or "timed out"."""
    process = multiprocessing.get_context("fork").Process(target=run_tests, args=(folder, suite))
    process.start()
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
        return "timed out"
    return "survived" if process.exitcode == 0 else "killed"


def suites_of(module):
    """Return the test files that a module's mutants run against, the quicker one first."""
    return [f"tests/test_{module}.py", "tests/test_theory_values.py"]


def digest_of(module):
    """Return twelve digits that name a module and its tests."""
    names = [f"lib/{module}.py", *suites_of(module)]
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()[:12]


def versions():
    """Return what the mutants run with."""
    found = {module.__name__: module.__version__ for module in (np, scipy, hypothesis, pytest)}
    return {"python": platform.python_version(), **found}


def kept(module, record):
    """Return what is known of a module's mutants: how many there are, were tried and killed, and who survived."""
    found = record["modules"].get(module, {})
    if found.get("digest") != digest_of(module):
        found = {"digest": digest_of(module), "mutants": 0, "tried": 0, "killed": 0, "equivalent": [], "survivors": []}
    record["modules"][module] = found
    return found


def report(module, folder, found, most, end, timeout):
    """Try mutants of one module until `most` are tried or the time is `end`; add to what was found."""
    path = folder / "lib" / f"{module}.py"
    source = path.read_text()
    chosen = mutants(source)
    random.Random(SEED).shuffle(chosen)
    found["mutants"] = len(chosen)
    waiting = chosen[found["tried"] : most or None]
    if not waiting or time.monotonic() >= end:
        return
    if any(outcome(folder, suite, 300) != "survived" for suite in suites_of(module)):
        raise SystemExit(f"{module}: the tests fail without a mutant")
    for label, line, text in waiting:
        if time.monotonic() >= end:
            break
        path.write_text(text)
        lives = all(outcome(folder, suite, timeout) == "survived" for suite in suites_of(module))
        found["tried"] += 1
        found["killed"] += not lives
        if lives:
            known = f"{module}.{label}" in EQUIVALENT
            found["equivalent" if known else "survivors"].append(f"{module}.{label}")
            if not known:
                print(f"  survivor {module}.py:{line} {module}.{label}", flush=True)
    path.write_text(source)


def _settle(found):
    """Move survivors that have been explained since."""
    explained = [label for label in found["survivors"] if label in EQUIVALENT]
    found["equivalent"] = sorted({*found["equivalent"], *explained})
    found["survivors"] = sorted({*found["survivors"]} - {*explained})


def line_on(name, found):
    """Return a line that says how many of the mutants were tried and killed."""
    counted = found["tried"] - len(found["equivalent"])
    return (f"{name}: {found['tried']} of {found['mutants']} tried, {found['killed']} of {counted} killed "
            f"({100 * found['killed'] / max(counted, 1):.1f} %), {len(found['equivalent'])} equivalent left out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", choices=[*MODULES, "all"])
    parser.add_argument("--sample", type=int, default=0, help="mutants per module; 0 for all")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time; run again to go on")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per mutant")
    options = parser.parse_args()
    modules = MODULES if "all" in options.modules else options.modules
    end = time.monotonic() + options.seconds
    sys.dont_write_bytecode = True
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # A red test is enough; its smallest example is not needed.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True)
    hypothesis.settings.load_profile("mutants")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"modules": {}}
    record |= {"command": "python scripts/mutation_report.py all --seconds N", "versions": versions(), "seed": SEED}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("lib", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for module in sorted(modules, key=lambda module: kept(module, record)["tried"]):
            found = kept(module, record)
            report(module, folder, found, options.sample, end, options.timeout)
            _settle(found)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
    for module in modules:
        print(line_on(module, record["modules"][module]))
    every = [record["modules"][module] for module in modules]
    whole = {key: sum(found[key] for found in every) for key in ("mutants", "tried", "killed")}
    print(line_on("all", whole | {"equivalent": [label for found in every for label in found["equivalent"]]}))


if __name__ == "__main__":
    main()
