"""Four layers: a module imports from its own and those before it, and heavy packages stay where they belong."""

import ast
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parent.parent / "lib"
LAYERS = {
    "facts": [
        *("arguments", "units", "machine", "hardware", "model", "llama", "footprint", "measured"),
        *("trace", "arrivals", "lengths", "workload", "prices"),
    ],
    "theory": [
        *("domains", "queueing", "erlang", "multiserver", "bulk", "embedded_chain", "exponential_batch"),
        *("batch_law", "dynamic_batching", "control_limit", "formation", "occupancy", "order_statistics", "token_load"),
        *("processor_sharing", "static_batch", "replication"),
        *("latency", "fit", "roofline", "memory", "layer_shape", "layer_time", "layer_fit", "left_out"),
        *("schedule", "length_fit", "rigid_batch", "timeout_batching", "timeout_choice", "dispatch", "simulated"),
        *("calibration", "serving", "amortisation", "deployment", "engine_step", "operating_point"),
    ],
    "systems": [
        *("batching", "engines", "step_time", "replica", "compiled_replica", "whole_batches"),
        *("simulation", "token_times", "queues", "kernel_table", "recorded_run", "replay"),
        *("calibrated_step", "first_token"),
        *("decode", "records", "bench", "measurement"),
        *("cost", "batch_limit", "offer", "frontier", "production_day", "your_case"),
        *("boarding", "makespan", "bus", "serving_records", "serving_run", "engine_runs", "loop_bus"),
    ],
    "page": [
        *("expressions", "theme", "charts", "batch_charts", "bus_charts", "bus_tables", "price_charts", "traced_case"),
        "waiting_charts",
        *("prose", "article", "claims", "figures", "downloads", "copies", "book"),
        *("evidence", "wall_evidence", "trip_evidence", "coach_evidence", "bus_evidence", "pause_evidence"),
        "price_evidence",
    ],
}
LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules}
TORCH = {"decode", "bench", "bus"}
NUMBA = {"compiled_replica"}
OF_THE_PAGE = {"altair", "sphinx", "myst_nb", "docutils", "nbformat", "IPython", "vl_convert", "jupyter_book"}
NEVER = {"chapters", "tests", "scripts", "benchmarks"}
NOUNLESS = {"utils", "util", "helpers", "helper", "common", "core", "misc"}


def modules(folder):
    """Return the modules of a package folder, by name."""
    return {path.stem: path for path in sorted(folder.rglob("*.py")) if path.stem != "__init__"}


def imports(path):
    """Return what a module imports anywhere in it, late imports too: ("lib", name) or (package, "")."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(["lib"] * bool(node.level) + [node.module] * bool(node.module))
            dotted = [f"{base}.{alias.name}" for alias in node.names] if base == "lib" else [base]
        else:
            continue
        for name in dotted:
            package, _, rest = name.partition(".")
            found.add((package, rest.split(".")[0] if package == "lib" else ""))
    return found


def faults(folder):
    """Return every breach of the layers in a package folder, in words."""
    order = [*LAYERS]
    wrong = []
    for module, path in modules(folder).items():
        if module in NOUNLESS:
            wrong.append(f"{module}: name the noun it holds")
        if module not in LAYER_OF:
            wrong.append(f"{module}: give it a layer in tests/test_layers.py")
            continue
        for package, imported in sorted(imports(path)):
            if package in NEVER:
                wrong.append(f"{module} imports {package}, which lib stands below")
            if package == "torch" and module not in TORCH:
                wrong.append(f"{module} imports torch, which is for {' and '.join(sorted(TORCH))}")
            if package == "numba" and module not in NUMBA:
                wrong.append(f"{module} imports numba, which is an optional extra for {' and '.join(sorted(NUMBA))}")
            if package in OF_THE_PAGE and LAYER_OF[module] != "page":
                wrong.append(f"{module} ({LAYER_OF[module]}) imports {package}, which is for the page layer")
            layer = LAYER_OF.get(imported, LAYER_OF[module])
            if package == "lib" and order.index(layer) > order.index(LAYER_OF[module]):
                wrong.append(f"{module} ({LAYER_OF[module]}) imports {imported} ({layer}), which comes later")
    return wrong


def test_each_module_imports_only_from_its_own_layer_and_those_before_it():
    assert faults(LIB) == []


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("units", "from lib import roofline", "units (facts) imports roofline (theory), which comes later"),
        ("units", "from lib.roofline import decode_step", "units (facts) imports roofline"),
        ("units", "import lib.roofline", "units (facts) imports roofline"),
        ("units", "from . import roofline", "units (facts) imports roofline"),
        ("units", "from .roofline import decode_step", "units (facts) imports roofline"),
        ("units", "def late():\n    from lib import theme", "units (facts) imports theme (page)"),
        ("roofline", "import torch.nn", "roofline imports torch"),
        ("replica", "import numba", "replica imports numba"),
        ("memory", "import altair as alt", "memory (theory) imports altair"),
        ("memory", "from sphinx.util import logging", "memory (theory) imports sphinx"),
        ("book", "from chapters import memory_wall", "book imports chapters"),
        ("helpers", "import math", "helpers: name the noun"),
        ("tollbooth", "import math", "tollbooth: give it a layer"),
    ],
)
def test_a_wrong_import_is_found(tmp_path, module, line, fault):
    (tmp_path / f"{module}.py").write_text(line + "\n")
    assert any(found.startswith(fault) for found in faults(tmp_path))


def test_a_right_import_is_let_through(tmp_path):
    (tmp_path / "roofline.py").write_text("import numpy as np\nfrom lib import arguments, memory\n")
    assert faults(tmp_path) == []
