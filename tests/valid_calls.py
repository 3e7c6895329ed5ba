"""One valid call of every public function and record, from which `test_bad_input` makes bad ones.

To add a function, add a line: its name, ``call`` and every argument that it has. A value tells
what the argument is, and so which bad values it must refuse:

- a number: NaN, both infinities, -1, 0, a word, an empty array; and, where an array is accepted,
  an array with NaN in it, and shapes that do not fit those of the other arguments;
- a list or an array, for an argument of fixed layout: the same in its first element, and nothing;
- a word: an unknown option; wrap free text in `Text`;
- a record, a mapping, a function, a random generator: something else.

Where a bad value is a good one, `ALLOWED` says why.
"""

import tempfile
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from lib import (
    agreement,
    boarding,
    calibration,
    decode,
    engine_runs,
    fit,
    frontier,
    layer_fit,
    layer_shape,
    llama,
    measured,
    misses,
    operating_point,
    prices,
    records,
    serving_records,
    serving_run,
    step_laws,
)  # fmt: skip
from lib import deployment as deployments
from lib.arrivals import ArrivalLaw
from lib.batching import ContinuousBatching, DynamicBatching, KVMemory
from lib.calibrated_step import CalibratedStep
from lib.capped_timeout import SojournLaw
from lib.closed_loop import ClosedLoop
from lib.first_token import Case
from lib.footprint import BF16
from lib.hardware import hardware
from lib.kernel_table import KernelTable, kernel_table_in
from lib.latency import ServiceLevel, latencies
from lib.lengths import LengthLaw, MeasuredLengths
from lib.memory_pressure import Pressure
from lib.model import model
from lib.recorded_run import recorded_run
from lib.rigid_batch import StepLaw
from lib.roofline import decode_step
from lib.schedule import static_schedule
from lib.simulation import simulate
from lib.step_time import AffineStep
from lib.trace import Trace
from lib.workload import measured_workload
from tests import valid_queueing_calls
from tests.served import ENGINE_RUNS, ENGINE_STEPS
from tests.served import SERVED as SERVED_CONTENT
from tests.test_records import recorded
from tests.test_step_race import RACED


class Text(str):
    """A free text: only an empty one is bad."""


class Without(NamedTuple):
    """Marks a function or class that is not tried, and says why."""

    reason: str


def call(**arguments):
    """Return the arguments of one valid call."""
    return arguments


def attributes(record):
    """Return the arguments that would build this record again."""
    texts = {"name", "source", "where", "date", "published_where"}
    given = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: Text(value) if name in texts else value for name, value in given.items()}


H100, LLAMA, MIXTRAL, WINDOWED, LATENT = (
    hardware("H100 SXM"), model("Llama-3-8B"), model("Mixtral-8x7B"), model("gpt-oss-20b"), model("DeepSeek-V3"),
)  # fmt: skip
STEP = decode_step(H100, LLAMA, 8, 2048)
DATA, ROOT = files("lib") / "data", Path(__file__).resolve().parent.parent
FITTED, LAYERS = calibration.catalogue()["H100 SXM"], layer_shape.bound(H100, LLAMA, 8, 2048)
STEPS = dict(measured.table("decode_steps"))
STEPS = layer_fit.chosen(STEPS, STEPS["accelerator"] == "RTX 4090")
ALL_REDUCES = layer_fit.chosen(dict(measured.table("all_reduce")), np.arange(90) < 45)
CHAT = layer_fit.chosen(dict(measured.table("end_to_end")), measured.table("end_to_end")["quantity"] == "tpot")
CHAT = layer_fit.chosen(CHAT, np.arange(len(CHAT["value"])) < 18)
REAL_STEP = CalibratedStep(accelerator="H100 SXM", model="Llama-3-8B")
REAL_CASE = Case(workload="azure-conversation", step=REAL_STEP, policy="vllm")
INNER = Without("part of the loop: simulation checks what it gets")
INSIDE = Without("part of the law: its callers have checked what it gets")
BATCHES, CONTEXTS = np.array([1.0, 1, 2, 4, 8, 8]), np.array([16.0, 64, 32, 16, 64, 16])
TIMES = 1.0 + 0.1 * BATCHES + 0.01 * BATCHES * CONTEXTS
STRAIGHT = fit.affine(BATCHES, CONTEXTS, TIMES)
RECORD = recorded(lambda batch, context, round: 0.01 * batch)
RUN = records.summed_up("run", RECORD)
WIDER = recorded(lambda batch, context, round: 0.01 + 0.002 * batch + 1e-6 * batch * context)
WIDER["points"] += [point | {"batch_size": 3 * point["batch_size"]} for point in WIDER["points"]]
WIDER["points"] += [point | {"context": 4 * point["context"]} for point in WIDER["points"]]
WIDER_RUN = records.summed_up("wider", WIDER)
MISSED = fit.LeftOut(
    predicted=RUN.time, lower=RUN.time, upper=RUN.time, error=np.full(4, 0.2), within=np.full(4, True)
)
RECORD_PATH = Path(tempfile.mkdtemp()) / "run.json"
records.write(RECORD_PATH, RECORD)
TINY = llama.stand_in(LLAMA, 64)
TINY_DECODER = decode.decoder(TINY)
TINY_CACHE = decode.cache(TINY_DECODER, 2, 64)

SERVED_PATH = Path(tempfile.mkdtemp()) / "served.json"
serving_records.write(SERVED_PATH, SERVED_CONTENT)
SERVED_RECORD = serving_records.record(SERVED_PATH)
SERVED_RUN = SERVED_RECORD.runs[0]
PREDICTION = engine_runs.predicted(ENGINE_STEPS, [2])
BOTH_RUNS = ENGINE_RUNS | {"runs": [*ENGINE_RUNS["runs"], ENGINE_RUNS["runs"][0] | {"policy": "padded"}]}

RNG = np.random.default_rng(0)
TRACE = Trace(np.array([0.0, 0.5, 2.0]), np.array([8, 9, 10]), np.array([4, 5, 6]))
TRACE_FILE = Path(__file__).resolve().parent / "data" / "azure_trace.csv"
LOGNORMAL, MEASURED = LengthLaw(law="lognormal", mean=200, cv=1.5), MeasuredLengths(workload="arxiv", quantity="output")
POISSON, CODE = ArrivalLaw(law="poisson", rate=2.0), measured_workload("azure-code", 2.0)
GREEDY, BURSTS = DynamicBatching(), ArrivalLaw(law="on-off", rate=2.0, on_time=3.0, off_time=6.0)
ROOM, QUICK = KVMemory(tokens=64), AffineStep(fixed=0.01)
EVENTFUL = simulate(TRACE, ContinuousBatching(), QUICK, events=True)

KERNEL_FOLDER = Path(__file__).parent / "data" / "kernels"
KERNELS = {
    "layers": 2, "tokens": [1, 64], "token_time": [1e-3, 2e-3], "sequences": [1, 8], "sequence_time": [1e-4, 2e-4],
    "attention": kernel_table_in(KERNEL_FOLDER, 2).attention, "graph_sizes": (1, 2), "prompt_host_time": 1e-3,
}  # fmt: skip
SERVED = recorded_run(KERNEL_FOLDER / "requests.csv")

V100 = {"arrival_rate": 500.0, "fixed_time": 1.9e-3, "marginal_time": 1.4e-4}
DEPLOYED = deployments.Deployment(hardware=H100, model=MIXTRAL, dtype="fp8", devices=2)
DENSE = deployments.Deployment(hardware=H100, model=LLAMA, dtype="fp8", devices=2)
LAW = (1.7e-5, 1.6e-5, 1.5, 1.9, 2.0, 2.0, 1.5, 1.7e-5)
CLOSED = ClosedLoop(deployment=DENSE, engine="vLLM", users=4, input_tokens=64, output_tokens=8)
PRESSED = Pressure(kv_tokens=1024, slots=8, longest=512)
LOADED = simulate(TRACE, ContinuousBatching(slots=4), AffineStep(fixed=0.01), events=True)
SCALES, CHATS = deployments.scales(DEPLOYED), deployments.traffic_of("azure-conversation")
REPLICA = operating_point.replica(DEPLOYED, CHATS, slots=64)
GRID = frontier.points(CHATS, models=("Llama-3-8B",), accelerators=("L40S",))
LISTING = prices.listings()[0]

# module: {function or record: its valid call, or several}
CALLS = {
    "units": {
        "quantity": call(value=0.00448, unit="s", digits=3),
        "quantity_range": call(low=1.0, middle=2.0, high=4.0, unit="s", digits=3),
        "significant": call(value=0.00448, digits=3),
        "grouped": call(value=1234.5, digits=3),
    },
    "hardware": {
        "Fact": call(value=3.35e12, unit="B/s", source=Text("key"), where=Text("table 1"), date=Text("2023-03")),
        "Hardware": call(**attributes(H100) | {"on_chip_memory": 5e7, "link_bandwidth": 9e11, "power": 700}),
        "catalogue": call(),
        "hardware": call(name="H100 SXM"),
        "peak_flop_rate": call(hardware=H100, dtype="bf16"),
        "ridge_point": call(hardware=H100, dtype="bf16"),
        "several": call(hardware=H100, count=8),
        "accelerators_in": call(file=DATA / "accelerators.csv"),
    },
    "model": {
        "Model": [call(**attributes(subject)) for subject in (LLAMA, WINDOWED, LATENT)],
        "catalogue": call(),
        "model": call(name="Llama-3-8B"),
        "models_in": call(file=DATA / "models.csv"),
        "attention_kind": call(model=LLAMA),
        "with_key_heads": call(model=LLAMA, kv_heads=4),
        "params": call(model=LLAMA),
        "active_params": call(model=MIXTRAL),
        "mlp_params": call(model=LLAMA, size=4096),
        "moe_layers": call(model=MIXTRAL),
    },
    "measured": {
        "table": call(name="decode_steps"),
        "table_in": call(file=DATA / "published_results.csv"),
    },
    "trace": {
        "Trace": Without("a result: its functions check what they are given"),
        "ArrivalStatistics": Without("a result"),
        "trace_in": call(file=TRACE_FILE),
        "arrival_statistics": call(arrival_time=TRACE.arrival_time),
        "index_of_dispersion": call(arrival_time=TRACE.arrival_time, window=0.5),
        "replayed": call(trace=TRACE, arrival_rate=2.0),
    },
    "arrivals": {
        "ArrivalLaw": Without("its arguments depend on the law: tested in test_arrivals"),
        "arrival_times": [call(law=law, count=5, rng=RNG) for law in (POISSON, BURSTS)],
    },
    "lengths": {
        "LengthLaw": call(law="lognormal", mean=200.0, cv=1.5, longest=4096.0),
        "MeasuredLengths": call(workload="azure-code", quantity="output", longest=4096.0),
        "length_quantile": [call(law=law, level=0.5) for law in (LOGNORMAL, MEASURED)],
        "paired_levels": call(rank_correlation=0.5, count=3, rng=RNG),
    },
    "workload": {
        "Workload": call(arrivals=POISSON, prompt=LOGNORMAL, output=MEASURED, rank_correlation=0.1),
        "measured_workload": call(name="arxiv", arrival_rate=2.0),
        "requests": call(workload=CODE, count=3, rng=RNG),
        "at_rate": call(workload=CODE, arrival_rate=2.0),
    },
    "prices": {
        "Listing": call(
            kind=LISTING.kind,
            item=Text(LISTING.item),
            seller=Text(LISTING.seller),
            terms=LISTING.terms,
            low=LISTING.low,
            high=LISTING.high,
            unit=LISTING.unit,
            source=Text(LISTING.source),
            where=Text(LISTING.where),
            date=Text(LISTING.date),
        ),
        "PriceRange": Without("a result"),
        "listings": call(),
        "listings_in": call(file=DATA / "prices.csv"),
        "asked": Without("its terms are a tuple of words: tested in test_prices"),
        "rent": call(accelerator="H100 SXM"),
        "rented": Without("its terms are a tuple of words: tested in test_prices"),
        "days": Without("its kinds are a tuple of words: tested in test_prices"),
        "in_words": call(price_range=prices.rent("H100 SXM")),
    },
    "footprint": {
        "Precision": call(weights="fp8", kv="bf16", arithmetic="bf16"),
        "dtype_bytes": call(dtype="bf16"),
        "streamed_params": call(model=LLAMA),
        "weight_bytes": call(model=LLAMA, precision=BF16),
        "distinct_experts": call(model=MIXTRAL, batch_size=8),
        "streamed_weight_bytes": call(model=MIXTRAL, batch_size=8, precision=BF16),
        "kv_bytes_per_token": call(model=LLAMA, precision=BF16),
        "kv_bytes": call(model=LLAMA, context=2048, precision=BF16),
        "linear_flop_per_token": call(model=LLAMA),
        "attention_flop_per_token": call(model=LLAMA, context=2048),
        "flop_per_token": call(model=LLAMA, context=2048),
        "prompt_linear_flop": call(model=LLAMA, prompt_tokens=2048),
        "prompt_attention_flop": call(model=LLAMA, prompt_tokens=2048),
    },
    "roofline": {
        "Step": Without("a result: decode_step and prefill_step make it from arguments that they have checked"),
        "decode_step": call(
            hardware=H100, model=MIXTRAL, batch_size=8, context=2048, precision=BF16, overlap="kernels"
        ),
        "prefill_step": call(
            hardware=H100, model=MIXTRAL, prompt_tokens=512, batch_size=2, precision=BF16, overlap="full"
        ),
        "overlapped_time": call(
            weight_time=5e-3, cache_time=1e-3, linear_time=2e-3, attention_time=1e-4, overlap="none"
        ),
        "flop_rate": call(step=STEP),
        "intensity": call(step=STEP),
        "idle_share": call(step=STEP),
        "regime": call(step=STEP),
        "ridge_batch": call(hardware=H100, model=MIXTRAL, precision=BF16),
    },
    "layer_shape": {
        "kind": call(model=LLAMA),
        "share": call(model=LLAMA, tensor_parallel=2),
        "matrices": INSIDE,
        "activation_bytes": INSIDE,
        "cache_read": INSIDE,
        "bound": call(hardware=H100, model=LLAMA, batch_size=8, context=2048, tensor_parallel=2),
        "regime": call(step=LAYERS),
    },
    "layer_time": {
        "Coefficients": call(**attributes(FITTED)),
        "smooth_maximum": INSIDE,
        "stream_time": INSIDE,
        "knots": INSIDE,
        "linear_time": call(coefficients=FITTED, hardware=H100, model=LLAMA, batch_size=8, tensor_parallel=2),
        "attention_time": call(coefficients=FITTED, model=LLAMA, batch_size=8, context=2048, tensor_parallel=2),
        "head_time": call(coefficients=FITTED, hardware=H100, model=LLAMA, batch_size=8, tensor_parallel=2),
        "all_reduce_time": call(coefficients=FITTED, hardware=H100, message_bytes=65536, workers=2),
    },
    "layer_fit": {
        "Candidate": call(name=Text("law"), by_width=True, by_context=True, by_size=False),
        "chosen": INSIDE,
        "checked": Without("the check itself: its messages are tested through `fitted`"),
        "fitted": call(points=STEPS, candidate=layer_fit.LAW),
        "carried_over": call(known=calibration.catalogue(), to=H100),
        "layers_time": call(coefficients=FITTED, points=STEPS),
        "fitted_links": call(points=ALL_REDUCES, link_bandwidth=6e11),
        "with_links": INSIDE,
    },
    "left_out": {
        "shape_of": call(name="Llama-3-8B"),
        "without": call(points=STEPS, out=np.arange(44) < 20),
        "left_out_times": Without("takes seconds: tested in test_left_out"),
    },
    "calibration": {
        "Prediction": Without("a result: predict makes it from arguments that it has checked"),
        "catalogue": call(),
        "errors": call(),
        "left_out": call(),
        "serving_left_out": call(),
        "coefficients": call(accelerator="H200 SXM"),
        "error_range": call(calibrated_on="H100 SXM", regime="knee"),
        "predict": call(accelerator="H100 SXM", model="Llama-3-8B", batch_size=8, context=2048, tensor_parallel=2),
        "predictions_for": call(file=ROOT / "tests" / "data" / "configurations.csv"),
        "main": Without("the command line: tested in test_calibration"),
    },
    "amortisation": {
        "model_class": call(name="Llama-3-8B"),
        "kernel_ratios": call(batch_size=32),
        "engine_ratios": call(batch_size=32),
        "cache_gain": call(relative_batch=[0.5, 2.0], share=0.5),
        "batches_to_memory": call(hardware=H100, model=LLAMA, context=2048, precision=BF16, most=1024),
    },
    "serving": {
        "effective_batch": call(hardware=H100, model=LLAMA, concurrency=64, context=2048, precision=BF16),
        "terms": call(points=CHAT),
        "fitted": call(ideal=np.full((3, 8), 1e-3), time=[0.01, 0.02, 0.03], pull=0.1, prefill=True),
        "without_each_shape": call(points=CHAT, prefill=False),
    },
    "deployment": {
        "Deployment": call(hardware=H100, model=MIXTRAL, dtype="fp8", devices=2),
        "Traffic": call(prompt_tokens=1000.0, output_tokens=200.0, output_cv2=0.6),
        "Scales": Without("a result: scales makes it from a deployment that was checked"),
        "traffic_of": call(workload="azure-conversation"),
        "precision": call(deployment=DEPLOYED),
        "name": call(deployment=DEPLOYED),
        "scales": call(deployment=DEPLOYED),
        "machine_numbers": call(hardware=H100, dtype="fp8"),
        "model_numbers": call(model=LLAMA),
        "assembled": INSIDE,
        "resident_context": call(traffic=CHATS),
        "cached_bytes": call(scales=SCALES, context=2048),
        "memory_limit": call(scales=SCALES, context=2048),
        "kv_tokens": call(deployment=DEPLOYED),
    },
    "article": {
        "Claim": Without("a row of claims.csv: tested in test_claims"),
        "claims": call(),
        "example_times": call(machine=H100),
        "token_price": call(batch_size=32, rent="middle"),
    },
    "sensitivity": {
        "Swing": Without("a result"),
        "swings": call(base=DEPLOYED, larger=DEPLOYED, traffic=CHATS),
    },
    "market": {
        "Choice": Without("a result"),
        "Implied": Without("a result"),
        "choices": call(traffic=CHATS),
        "implied": call(traffic=CHATS),
    },
    "engine_step": {
        "Law": Without("a result"),
        "rows": call(),
        "law": call(),
        "held_against": call(),
        "Errors": Without("a result"),
        "errors": call(),
        "ideal_terms": call(scales=SCALES, batch=8, context=2048),
        "reduced_time": call(scales=SCALES),
        "prompt_terms": call(scales=SCALES, prompt_tokens=512),
        "decode_time": Without("its coefficients are a fixed tuple: tested in test_engine_step"),
        "prompt_time": Without("its coefficients are a fixed tuple: tested in test_engine_step"),
        "step_time": Without("its coefficients are a fixed tuple: tested in test_engine_step"),
        "bound_time": Without("its traffic is a fixed tuple: tested in test_engine_step"),
    },
    "operating_point": {
        "Replica": call(
            traffic=CHATS, step_time=np.array([0.02, 0.03]), decode_time=np.array([0.02, 0.03]), prompt_time=0.1
        ),
        "Point": Without("a result"),
        "replica": call(deployment=DEPLOYED, traffic=CHATS, slower=1.2, slots=64),
        "replicas": call(deployment=DEPLOYED, traffic=CHATS),
        "bound_replica": call(deployment=DEPLOYED, traffic=CHATS, slots=64),
        "capped": call(replica=REPLICA, slots=8),
        "full_rate": call(replica=REPLICA),
        "output_time": call(replica=REPLICA, residents=[1, 2]),
        "at_load": call(replica=REPLICA, arrival_rate=1.0),
        "good_share": call(replica=REPLICA, arrival_rate=1.0, first_token_time=0.5),
    },
    "cost": {
        "TokenCost": Without("a result"),
        "cost_per_token": call(price_rate=1e-3, token_rate=1000.0, utilisation=0.5),
        "token_costs": call(price_rate=1e-3, arrival_rate=2.0, traffic=CHATS, prompt_time=0.1, output_time=0.2),
        "request_price": call(traffic=CHATS, input_price=1e-6, output_price=4e-6, cached_price=1e-7, cached_share=0.5),
        "break_even_rate": call(price_rate=1e-3, request_price=2e-3),
        "goodput_per_dollar": call(arrival_rate=2.0, good_share=0.9, price_rate=1e-3),
        "affine_step": call(step_time=[0.02, 0.03]),
    },
    "batch_limit": {
        "BatchLimit": Without("a result"),
        "batch_limit": call(replica=REPLICA, time_per_token=0.05),
        "slots_within": call(replica=REPLICA, time_per_token=0.05),
        "token_budget": call(replica=REPLICA, slots=8, gap=0.1),
        "load_limit": call(replica=REPLICA, time_per_token=0.05, first_token_time=1.0),
        "closed_load_limit": call(replica=REPLICA, time_per_token=0.05),
        "within_targets": call(replica=REPLICA, time_per_token=0.05, first_token_time=1.0),
    },
    "offer": {
        "Offer": Without("a result"),
        "offer": call(deployment=DEPLOYED, traffic=CHATS, time_per_token=0.05, first_token_time=1.0),
        "full_rates": call(deployment=DEPLOYED, traffic=CHATS, slots=8),
    },
    "frontier": {
        "covered": Without("its terms are a tuple of words: tested in test_frontier"),
        "points": Without("its names are tuples of words: tested in test_frontier"),
        "pareto": Without("takes any number of columns: tested in test_frontier"),
        "best": Without("takes the columns that points makes: tested in test_frontier"),
        "at_end": Without("takes the columns that points makes: tested in test_frontier"),
        "agreement": Without("takes the columns that points makes: tested in test_frontier"),
        "choices": Without("takes the columns that points makes: tested in test_frontier"),
        "ranked_at": Without("takes the columns that points makes: tested in test_frontier"),
        "cheapest_at": Without("takes the columns that points makes: tested in test_frontier"),
        "main": Without("the command line: tested in test_frontier"),
    },
    "your_case": {
        "Case": Without("plain numbers, or symbols for the page"),
        "keep": INSIDE,
        "step": INSIDE,
        "resident": INSIDE,
        "estimate": Without("traced for the page: its numbers are those of controls; tested in test_your_case"),
        "in_words": Without("takes what estimate returned: tested in test_your_case"),
    },
    "production_day": {
        "Prediction": Without("a result"),
        "Books": Without("a result"),
        "published": call(name=Text("day-context")),
        "decode_rate": call(speed=21.0),
        "decode_rates": call(),
        "prefill_rate": call(),
        "all_books": call(),
        "books": call(prefill_rate=7e4, decode_rate=1.5e4),
    },
    "machine": {"processor": call(), "caches": call(), "free_memory": call(), "driver": call()},
    "fit": {
        "Fit": Without("a result: the fits make it from arguments that they have checked"),
        "LeftOut": Without("a result: leave_group_out makes it"),
        "affine": call(batch_size=BATCHES, context=CONTEXTS, time=TIMES, coverage=0.95),
        "smooth_max": call(
            weight_time=np.full(6, 3.0),
            arithmetic_time=BATCHES,
            cache_time=CONTEXTS,
            time=TIMES,
            sharpness=1.0,
            overhead=False,
            coverage=0.95,
        ),
        "nearest": call(
            law=lambda coefficients, size: coefficients[0] + coefficients[1] * size,
            inputs=(BATCHES,),
            time=TIMES,
            start=np.array([1.0, 1.0]),
            names=("fixed", "slope"),
            inverted=("slope",),
            coverage=0.9,
        ),
        "parameters": call(fit=STRAIGHT),
        "predicted": call(fit=STRAIGHT, inputs=(BATCHES, CONTEXTS)),
        "prediction_interval": call(fit=STRAIGHT, inputs=(BATCHES, CONTEXTS), of="law"),
        "leave_group_out": call(fit_function=fit.affine, groups=BATCHES, inputs=(BATCHES, CONTEXTS), time=TIMES),
    },
    "llama": {
        "stand_in": call(model=MIXTRAL, divisor=4),
        "weight_shapes": call(model=LLAMA),
        "cache_numbers": call(model=TINY, slots=2, length=8),
    },
    "records": {
        "Run": Without("a result: summed_up makes it from a record that it has checked"),
        "Quietness": Without("a result: quietness makes it"),
        "assumed": call(model=TINY, dtype="fp32", points=((1, 16), (4, 64)), bandwidth=4e10, flop_rate=1e11),
        "write": call(path=RECORD_PATH, content=RECORD),
        "content_of": call(path=RECORD_PATH),
        "relative_to": call(run=RUN, ceiling="copy"),
        "ceilings_of": call(visit=RECORD["points"][0]["visits"][0]),
        "run": call(path=RECORD_PATH),
        "summed_up": call(name=Text("run"), content=RECORD),
        "precision_of": call(run=RUN),
        "parts_of": call(run=RUN, end="fast"),
        "bound_of": call(run=RUN, end="slow"),
        "bound_at": call(run=RUN, batch_size=8, context=128),
        "quietness": call(run=RUN),
        "committed": call(folder=RECORD_PATH.parent),
        "own": call(folder=RECORD_PATH.parent),
    },
    "record_file": {
        "Kind": Without("made where a kind of record is defined; tests/test_record_file.py tries what it refuses"),
        "write": call(kind=records.KIND, path=RECORD_PATH, content=RECORD),
        "content_of": call(kind=records.KIND, path=RECORD_PATH),
        "json_of": call(path=RECORD_PATH),
        "checked": call(kind=records.KIND, name=Text("content"), content=RECORD),
        "files_in": call(folder=RECORD_PATH.parent, own=True),
        "begun": call(
            kind=records.KIND, output=RECORD_PATH.with_name("begun.json"), fresh=RECORD, started=lambda old: False
        ),
        "version": call(),
    },
    "step_laws": {
        "Judged": Without("a result: judged makes it"),
        "judged": call(run=WIDER_RUN),
        "best": call(laws=step_laws.judged(WIDER_RUN)),
    },
    "misses": {
        "Miss": Without("a result: misses makes it"),
        "in_words": call(found=misses.misses(RUN, MISSED, "batch"), by="batch", limit=0.15),
        "misses": call(
            run=RUN,
            left_out=MISSED,
            by="batch",
            limit=0.15,
        ),
    },
    "step_race": {
        "Race": Without("a result: races makes it"),
        "races": call(content=RACED),
        "recorded": call(path=RECORD_PATH),
    },
    "agreement": {
        "Agreement": Without("a result: agreement makes it"),
        "agreement": call(one=RUN, other=RUN, ceiling="read", limit=0.1),
        "table": call(compared=agreement.agreement(RUN, RUN)),
    },
    "bench": {
        "Bench": Without("measurement makes it from a plan that was checked"),
        "refuse": call(device="cpu", dtype="fp32", linear="auto"),
        "described": call(device="cpu", threads=2),
    },
    "measurement": {
        "Plan": Without("a result: plan makes it from arguments that it has checked"),
        "plan": call(
            name="Llama-3-8B",
            device="cpu",
            divisor=8,
            dtype="bf16",
            batch_sizes=[1, 4],
            contexts=[16, 64],
            seconds=5.0,
            threads=1,
            linear="plain",
            output=RECORD_PATH,
        ),
        "measure": Without("it takes seconds; tests/test_measurement.py tries it"),
        "main": Without("a command line; tests/test_measurement.py tries it"),
    },
    "decode": {
        "Decoder": Without("a result: decoder makes it from arguments that it has checked"),
        "Cache": Without("a result: cache makes it"),
        "random_weights": call(model=TINY, dtype="bf16", device="cpu", seed=3),
        "decoder": call(
            model=TINY, weights=decode.random_weights(TINY), dtype="fp32", device="cpu", linear="auto", rope_base=1e4
        ),
        "packs": call(dtype="fp32", device="cpu"),
        "multiplier": call(weight=torch.ones(4, 3), packed=False),
        "cache": call(decoder=TINY_DECODER, slots=2, length=8, storage=torch.zeros(100_000)),
        "move": call(cache=TINY_CACHE, source=1, target=0),
        "forward": call(
            decoder=TINY_DECODER, cache=TINY_CACHE, tokens=torch.tensor([[1], [2]]), first_slot=0, every=True
        ),
    },
    "boarding": {
        "Ride": Without("a result"),
        "StepTimes": call(**attributes(SERVED_RUN.times) | {"boards": [1], "joining": [[1.0], [1.5]]}),
        "Timetable": call(times=SERVED_RUN.times),
        "ride": call(
            arrival_time=[0.0, 1.0], output_length=[3, 4], policy="continuous", slots=2,
            bus=boarding.Timetable(SERVED_RUN.times),
        ),
        "seating": call(ride=SERVED_RUN.ride, policy="padded", slots=2),
    },
    "bus": {
        "Bus": call(decoder=TINY_DECODER, slots=2, prompt=3, room=8),
        "bus": call(model=TINY, slots=2, prompt=3, room=8, dtype="fp32", linear="auto", threads=1),
    },
    "serving_records": {
        "Run": Without("a result: summed_up makes it from a record that it has checked"),
        "Record": Without("a result: summed_up makes it"),
        "write": call(path=SERVED_PATH, content=SERVED_CONTENT),
        "content_of": call(path=SERVED_PATH),
        "record": call(path=SERVED_PATH),
        "summed_up": call(name=Text("served"), content=SERVED_CONTENT),
        "step_times": call(prompt=4, probes=SERVED_CONTENT["runs"][0]["probes"], slots=2),
        "replayed": call(run=SERVED_RUN),
        "simulated": call(run=SERVED_RUN),
        "Case": Without("a result"),
        "cases": call(record=SERVED_RECORD),
        "line_of": call(record=SERVED_RECORD),
        "makespan": call(ride=SERVED_RUN.ride),
        "time_per_token": call(ride=SERVED_RUN.ride, output_length=SERVED_RUN.output_length),
        "first_token_time": call(run=SERVED_RUN, ride=SERVED_RUN.ride),
        "publishable": call(record=SERVED_RECORD),
        "committed": call(folder=SERVED_PATH.parent),
        "own": call(folder=SERVED_PATH.parent),
    },
    "serving_run": {
        "Plan": Without("a result: plan makes it from arguments that it has checked"),
        "plan": call(
            name="Llama-3-8B", divisor=8, dtype="fp32", policies=["padded"], slots=[2, 4], loads=[0.5], requests=16,
            mean=6.0, longest=40, prompt=4, seed=1, rounds=2, seconds=5.0, threads=1, linear="plain",
            output=RECORD_PATH,
        ),
        "cases": call(plan=serving_run.plan()),
        "served": Without("it takes seconds; tests/test_serving_run.py tries it"),
        "report": call(content=SERVED_CONTENT),
        "main": Without("a command line; tests/test_serving_run.py tries it"),
    },
    "bus_tables": {
        "own_misses": call(cases=serving_records.cases(SERVED_RECORD)),
        "own_points": call(cases=serving_records.cases(SERVED_RECORD), column="makespan"),
        "engine_misses": call(
            compared=engine_runs.compared(ENGINE_STEPS, PREDICTION, ENGINE_RUNS),
            cause=engine_runs.explained(ENGINE_STEPS, ENGINE_RUNS),
        ),
        "engine_ways": call(compared=engine_runs.compared(ENGINE_STEPS, PREDICTION, ENGINE_RUNS)),
    },
    "makespan": {
        "makespan": call(
            policy="padded", slots=[2, 4], step_line=(0.03, 0.001, 0.01, 0.02), requests=8, mean_length=20.0
        )
    },
    "engine_runs": {
        "Cause": Without("a result"),
        "Comparison": Without("a result"),
        "predicted": call(steps=ENGINE_STEPS, slots=[2]),
        "compared": call(steps=ENGINE_STEPS, prediction=PREDICTION, runs=ENGINE_RUNS),
        "explained": call(steps=ENGINE_STEPS, runs=ENGINE_RUNS),
        "worst_misses": call(
            compared=engine_runs.compared(ENGINE_STEPS, PREDICTION, BOTH_RUNS), prediction="predicted"
        ),
        "step_times": call(steps=ENGINE_STEPS),
        "committed": call(name=Text("vllm"), folder=SERVED_PATH.parent),
    },
    "loop_bus": {
        "Served": Without("a result"),
        "step": call(),
        "policy": call(engine="vLLM"),
        "served": call(engine="TGI", load=0.4),
        "arithmetic_used": call(batch_size=8, context=1024),
        "gains": call(),
        "alone_first_token": call(),
    },
    **{
        module: {name: Without(given) if isinstance(given, str) else given for name, given in table.items()}
        for module, table in valid_queueing_calls.CALLS.items()
    },
    "batching": {
        "DynamicBatching": call(cap=8, control_limit=2, timeout=1.0, padded=True, prefill="elsewhere"),
        "static_batching": call(size=8, padded=False, prefill="whole"),
        "KVMemory": call(
            tokens=64,
            block_size=4,
            allocation="paged",
            victim="latest",
            back_of_the_queue=True,
            reuse=True,
            spare_share=0.1,
        ),
        "Estimate": call(start=0.7, least=0.1, steps=600),
        "HoldingBack": call(waiting_share=0.3, patience=20),
        "ContinuousBatching": [
            call(
                slots=8,
                token_budget=64,
                prefill="chunked",
                order="shortest",
                memory=ROOM,
                estimate=None,
                holding_back=None,
                ahead=True,
                source=Text("made up"),
            )
        ],
        "one_by_one": call(),
    },
    "engines": {
        "vllm": call(
            kv_tokens=64, max_num_seqs=8, max_num_batched_tokens=64, block_size=4, enable_prefix_caching=False,
            async_scheduling=True,
        ),
        "tgi": call(
            max_batch_total_tokens=64,
            waiting_served_ratio=0.3,
            max_batch_prefill_tokens=64,
            max_waiting_tokens=20,
            max_batch_size=8,
        ),
        "sglang": call(
            max_total_num_tokens=64,
            max_running_requests=8,
            chunked_prefill_size=64,
            schedule_conservativeness=1.0,
            page_size=4,
            disable_overlap_schedule=False,
        ),
    },
    "kernel_table": {
        "KernelTable": call(**KERNELS),
        "vllm_graph_sizes": call(max_num_seqs=8),
        "kernel_table_in": call(folder=KERNEL_FOLDER, layers=2, graph_sizes=[1, 2], prompt_host_time=0.001),
    },
    "recorded_run": {
        "RecordedRun": Without("a result"),
        "LatencyRow": Without("a result"),
        "recorded_run": call(file=KERNEL_FOLDER / "requests.csv"),
        "latency_table": call(run=SERVED, replayed=simulate(SERVED.requests, ContinuousBatching(), QUICK)),
        "save_table": Without("writes what latency_table returns: tested in test_recorded_run"),
    },
    "replay": {
        "fitted_host_time": call(
            run=SERVED, policy=ContinuousBatching(), kernels=KernelTable(**KERNELS), share=1.0, progress=False
        ),
        "main": Without("takes the words of a command line: tested in test_replay"),
    },
    "step_time": {
        "AffineStep": call(
            fixed=0.01, per_sequence=1e-4, per_context_token=1e-7, per_prompt_token=1e-5, per_prompt_pair=1e-9
        )
    },
    "replica": {
        "StepLoad": Without("a result: the loop makes it"),
        "Limits": Without("simulation makes it from a policy"),
        "Rates": Without("simulation makes it from a policy and a step"),
        "Columns": Without("simulation makes it from arguments that it has checked"),
        "iterations_until": INNER,
        "blocks_wanted": INNER,
        "steps_that_fit": INNER,
        "victim_of": INNER,
        "advance": INNER,
    },
    "compiled_replica": {"compiled_advance": Without("needs numba; tests/test_simulation.py compares it")},
    "whole_batches": {"advance": INNER, "batch_times": INNER},
    "calibrated_step": {
        "CalibratedStep": call(accelerator="H100 SXM", model="Llama-3-8B", devices=1),
        "kv_tokens": call(accelerator="H100 SXM", model="Llama-3-8B", devices=1),
    },
    "first_token": {
        "Case": call(
            workload="azure-conversation", step=REAL_STEP, policy="vllm", chunk=512, memory_share=0.5
        ),
        "policy_of": call(case=REAL_CASE),
        "simulated": call(case=REAL_CASE, requests=TRACE, lone=False),
        "summary": Without("takes a run, a result: tested in test_first_token"),
        "capacity": call(case=REAL_CASE, requests=TRACE),
        "alone": call(step=REAL_STEP, requests=TRACE),
        "one_by_one": call(step=REAL_STEP, requests=TRACE, load=0.5),
        "boarding_share": Without("takes the points that lib.serving checks: tested in test_first_token"),
        "later_than": call(target=1.0),
    },
    "pause_record": {
        "rows": call(),
        "value": Without("takes the columns of the record: tested in test_first_token"),
        "arrival_rate": Without("takes the columns of the record: tested in test_bursts"),
        "curve": Without("takes the columns of the record: tested in test_bursts"),
    },
    "bursts": {
        "Crossing": Without("a result"),
        "crossing": call(load=[0.2, 0.4], share=[0.0, 0.1], half_width=[0.0, 0.01], level=0.01),
        "bearable_load": call(variation=2.0, target=2.0),
    },
    "engine_iteration": {
        "EngineIteration": call(deployment=DENSE, coefficients=LAW),
    },
    "closed_loop": {
        "ClosedLoop": call(deployment=DENSE, engine="vLLM", users=4, input_tokens=64, output_tokens=8),
        "FirstTokens": Without("a result"),
        "policy_of": call(run=CLOSED),
        "regime": call(run=CLOSED),
        "gathers": call(run=CLOSED),
        "held_back": call(run=CLOSED, time_per_token=0.01),
        "first_tokens": call(run=CLOSED, coefficients=LAW, rng=RNG),
    },
    "memory_pressure": {
        "Pressure": call(kv_tokens=1024, slots=8, allocation="paged", longest=512),
        "policy_of": call(pressure=PRESSED),
        "that_fit": call(requests=TRACE, longest=512),
        "pressed": call(requests=TRACE, pressure=PRESSED, step_time=AffineStep(fixed=0.01)),
        "resident": call(run=LOADED, share=0.2),
        "resident_by_campbell": call(run=LOADED, arrival_rate=1.0),
    },
    "public_first_tokens": {
        "Prefills": Without("a result"),
        "Regime": Without("a result"),
        "prefills": call(),
        "summed_kernels": call(step=REAL_STEP, batch=2, prompt_tokens=64),
        "by_regime": call(),
    },
    "pause_tables": {
        "first_tokens": call(),
        "boarding": call(),
        "useful_shares": call(workload="azure-conversation"),
        "pressure": Without("takes the cases of the record: tested in test_pause_tables"),
        "targets": call(variations=[1.0, 2.0]),
    },
    "simulation": {
        "FirstTokenParts": Without("a result"),
        "Interruptions": Without("a result"),
        "Events": Without("a result"),
        "Run": Without("a result"),
        "simulate": [
            call(
                requests=TRACE,
                policy=policy,
                step_time=QUICK,
                output_limit=[4, 9, 9],
                cached_length=[1, 0, 0],
                priority=[1, 2, 3],
                events=True,
                progress=False,
                compiled=False,
            )
            for policy in (ContinuousBatching(), GREEDY)
        ],
        "simulate_closed_loop": call(
            lengths=([8, 9, 10], [4, 5, 6]),
            policy=ContinuousBatching(),
            step_time=QUICK,
            users=2,
            think_time=[1.0, 2.0, 3.0],
            output_limit=[4, 9, 9],
            cached_length=[1, 0, 0],
            priority=[1, 2, 3],
            events=True,
            progress=False,
            compiled=False,
        ),
    },
    "token_times": {
        "iteration_ends": call(run=EVENTFUL),
        "token_times": call(run=EVENTFUL, read_here=True),
    },
    "queues": {
        "Served": Without("a result"),
        "served_one_by_one": call(arrival_time=[1.0, 2.0], service_time=[1.0, 2.0], servers=2, capacity=3),
        "served_in_batches": call(arrival_time=[1.0, 2.0], batch_time=lambda *_: 1.0, policy=GREEDY),
        "served_sharing": call(
            arrival_time=[1.0, 2.0], output_length=[5.0, 6.0], step_time=lambda *_: 1.0, slots=2, waiting=True
        ),
        "served_by_steps": call(
            arrival_time=[1.0, 2.0], output_length=[5, 6], step_time=lambda *_: 1.0, prompt_length=[0, 4], slots=2
        ),
    },
    "schedule": {
        "Schedule": Without("a result"),
        "static_schedule": call(output_length=[3, 1, 2], slots=2),
        "continuous_schedule": call(output_length=[3, 1, 2], slots=2),
        "idle_share": call(schedule=static_schedule([3, 1, 2], 2)),
    },
    "length_fit": {
        "fitted_laws": call(law=MEASURED),
        "distance": call(law=MEASURED, other=LOGNORMAL),
        "max_ratio": call(law=MEASURED, batch_size=8),
        "sorted_max_ratio": call(law=LOGNORMAL, batch_size=8, batches=2),
    },
    "rigid_batch": {
        "StepLaw": Without("a result; what takes it checks its numbers"),
        "RigidBatch": Without("a result"),
        "step_law": call(accelerator="H100 SXM", model="Llama-3-8B", context=1024),
        "rigid_batch": call(lengths=[2.0, 9.0], law=StepLaw(0.02, 0.001), batch_cap=4),
        "rigid_batch_law": call(lengths=[2.0, 9.0], law=StepLaw(0.02, 0.001), batch_cap=4),
    },
    "timeout_batching": {
        "timeout_batch_size": call(**V100, timeout=1e-3),
        "timeout_sojourn_time": call(**V100, timeout=1e-3),
        "timeout_busy_fraction": call(**V100, timeout=1e-3),
        "timeout_size_law": call(**V100, timeout=1e-3),
        "timeout_sojourn_quantile": call(level=0.9, **V100, timeout=1e-3),
        "settings": Without("the check itself: tested through what uses it"),
        "setting_of": Without("the check itself: tested through what uses it"),
        "sojourn_time_of": Without("a formula that the page computes with: its callers have checked what it gets"),
    },
    "timeout_choice": {
        "best_timeout": call(arrival_rate=500.0, fixed_time=1.9e-3),
        "harmless_timeout": call(**V100, loss=0.01),
        "estimated_batch_size": call(**V100, timeout=1e-3, named=lambda name, value: value),
    },
    "capped_timeout": {
        "SojournLaw": Without("a result"),
        "sojourn_law": call(
            arrival_rate=1.0, batch_time=[[0.5, 1.0], [0.7, 1.2]], share=[[0.5, 0.5], [0.2, 0.8]], timeout=0.3, cells=20
        ),
        "sojourn_quantile": call(law=SojournLaw(1.0, 1.0, 0.5, np.arange(3.0), np.full(3, 1 / 3)), level=0.9),
    },
    "timeout_estimate": {
        "estimated_p99": call(**V100, timeout=1e-3, mean_batch=1.5, named=lambda name, value: value),
        "ample_cap": call(**V100, mean_batch=1.5),
    },
    "dispatch": {
        "Dispatch": Without("a result"),
        "Advice": Without("a result"),
        "dispatched": call(**V100, timeout=1e-3, batch_cap=8),
        "smallest_cap": call(**V100, loss=0.01),
        "advised": call(**V100, timeout=1e-3, batch_cap=8, loss=0.01),
    },
    "simulated": {
        "Points": Without("a result"),
        "experiments": call(),
        "points": Without("its series are positional: tested in test_simulated"),
        "effort": call(experiment="longest"),
    },
    "latency": {
        "Latencies": Without("a result"),
        "Percentile": Without("a result"),
        "ServiceLevel": call(ttft=1.0, tpot=0.1, latency=9.0),
        "latencies": call(
            arrival_time=[0.0, 1.0],
            admitted_time=[0.5, 1.0],
            first_token_time=[1.0, 2.0],
            finish_time=[1.5, 2.0],
            tokens=[3, 1],
        ),
        "inter_token_latency": call(token_time=[1.0, 2.0]),
        "meets": call(service_level=ServiceLevel(ttft=1.0), found=latencies([0.0], [0.0], [1.0], [2.0], [3])),
        "goodput": Without("takes true and false, not numbers: tested in test_latency"),
        "percentile": call(values=[1.0, 2.0, 3.0], level=0.9, coverage=0.9, strict=False),
        "values_needed": call(level=0.9, coverage=0.9),
        "warm_up": call(values=[1.0, 2.0, 1.0, 2.0] * 5, batch=2),
    },
    "replication": {
        "without_warm_up": call(values=[1.0, 2.0, 3.0], share=0.5),
        "mean_interval": call(replications=[1.0, 2.0] * 10, level=0.9),
    },
    "memory": {
        "cache_capacity": call(hardware=H100, model=LLAMA, precision=BF16, usable_share=0.9),
        "largest_batch": call(hardware=H100, model=LLAMA, context=2048, precision=BF16, usable_share=0.9),
    },
}

_NONE_OF_IT = "a model may have none of it"
_FREE = "the part takes no time"

# argument: {kind of value: why it is a good one}; for one function only, "function.argument".
# A stricter function may refuse it all the same, by name.
ALLOWED = {
    "in_words.found": {"empty": "no point is missed"},
    **valid_queueing_calls.ALLOWED,
    "graph_sizes": {"empty": "the engine does not pad"},
    "prompt_host_time": {"zero": "the host takes no time"},
    "arrival_time": {"zero": "the first may come at once"},
    "length_quantile.level": {"zero": "the shortest"},
    "mean_interval.level": {"zero": "no interval"},
    "mean_interval.replications": {kind: "a mean may be" for kind in ("zero", "negative")},
    "without_warm_up.values": {kind: "a value may be" for kind in ("zero", "negative", "infinity")},
    "without_warm_up.share": {"zero": "nothing is left out"},
    "served_one_by_one.capacity": {"infinity": "room for all"},
    "served_one_by_one.service_time": {"zero": "done at once"},
    "served_by_steps.prompt_length": {"zero": "nothing is cached yet"},
    "served_by_steps.slots": {"infinity": "no cap"},
    "served_sharing.slots": {"infinity": "no cap"},
    **{f"ServiceLevel.{name}": {"infinity": "no target"} for name in ("ttft", "tpot", "latency")},
    "first_token_time": {"infinity": "refused", "zero": "at once"},
    "latencies.arrival_time": {"zero": "at once", "negative": "any clock"},
    "admitted_time": {"infinity": "refused", "zero": "at once"},
    "finish_time": {"infinity": "refused"},
    "latencies.tokens": {"zero": "refused"},
    "token_time": {"zero": "at once", "negative": "any clock"},
    "percentile.values": {kind: "a value may be" for kind in ("zero", "negative", "infinity")},
    "warm_up.values": {kind: "a value may be" for kind in ("zero", "negative")},
    "KVMemory.tokens": {"infinity": "no limit"},
    "KVMemory.spare_share": {"zero": "none is kept"},
    "HoldingBack.waiting_share": {"zero": "one is enough"},
    "ContinuousBatching.slots": {"infinity": "no cap"},
    "ContinuousBatching.token_budget": {"infinity": "no cap"},
    "tgi.waiting_served_ratio": {"zero": "one is enough"},
    "tgi.max_batch_size": {"infinity": "no cap"},
    "sglang.max_running_requests": {"infinity": "no cap"},
    **{
        f"AffineStep.per_{part}": {"zero": "that part costs nothing"}
        for part in ("sequence", "context_token", "prompt_token", "prompt_pair")
    },
    "cached_length": {"zero": "no hit"},
    "priority": {"zero": "the first", "negative": "before the first"},
    "think_time": {"zero": "at once"},
    "DynamicBatching.cap": {"infinity": "no cap"},
    "DynamicBatching.timeout": {"infinity": "no timeout", "zero": "serve what there is"},
    "rank_correlation": {"zero": "independent", "negative": "the reverse order"},
    "LengthLaw.longest": {"infinity": "no limit"},
    "marginal_time": {"zero": "a request may add nothing"},
    "timeout": {"zero": "no wait"},
    "timeout_sojourn_quantile.level": {"zero": "the shortest"},
    "rigid_batch.lengths": {"zero": "nothing may be wanted"},
    "rigid_batch_law.lengths": {"zero": "nothing may be wanted"},
    "share": {"zero": "a time may be listed and not occur"},
    "sojourn_quantile.level": {"zero": "the shortest"},
    "dispatched.batch_cap": {"infinity": "no cap"},
    "advised.batch_cap": {"infinity": "no cap"},
    "harmless_timeout.loss": {"zero": "no loss"},
    "MeasuredLengths.longest": {"infinity": "no limit"},
    "price_rate": {"zero": "a machine may be free"},
    "break_even_rate.price_rate": {},
    "goodput_per_dollar.price_rate": {},
    "input_price": {"zero": "a token may be free"},
    "output_price": {"zero": "a token may be free"},
    "cached_price": {"zero": "a token may be free"},
    "cached_share": {"zero": "nothing was cached"},
    "one_by_one.load": {"zero": "a lone user"},
    "crossing.share": {"zero": "none is late"},
    "crossing.half_width": {"zero": "no doubt"},
    "crossing.level": {"zero": "none may be late"},
    "resident.share": {"zero": "all of it"},
    "good_share": {"zero": "none may be good"},
    "Traffic.output_cv2": {"zero": "all as long"},
    "batch_limit.time_per_token": {"infinity": "no target"},
    "load_limit.time_per_token": {"infinity": "no target"},
    "load_limit.first_token_time": {"infinity": "no target"},
    "offer.time_per_token": {"infinity": "no target"},
    "offer.first_token_time": {"infinity": "no target"},
    "within_targets.time_per_token": {"infinity": "no target"},
    "within_targets.first_token_time": {"infinity": "no target"},
    "fixed_time": {"zero": "nothing is shared"},
    "Coefficients.overhead": {"zero": "nothing is fixed"},
    "Coefficients.overhead_per_width": {"zero": "width costs nothing"},
    "Coefficients.small_matrix_loss": {"zero": "all matrices stream alike"},
    "Coefficients.all_reduce_latency": {"empty": "no link was timed"},
    "value": {"negative": "a difference may be", "zero": "so may a difference"},
    "token_price.batch_size": {"infinity": "the floor"},
    "slots_within.time_per_token": {"infinity": "no target"},
    "quantity_range.low": {kind: "a number may be" for kind in ("zero", "negative")},
    "Fact.value": {},
    "context": {"zero": "nothing is cached yet"},
    "size": {"zero": "no layer is of this kind"},
    "weight_time": {"zero": _FREE},
    "cache_time": {"zero": _FREE},
    "linear_time": {"zero": _FREE},
    "arithmetic_time": {"zero": _FREE},
    "attention_time": {"zero": _FREE},
    "inputs": {"negative": "the law takes what it takes", "zero": "so it does"},
    "groups": {"a word": "a name is a group too", "negative": "any number names a group", "zero": "so does 0"},
    "seed": {"zero": "a seed like any other"},
    "ride.arrival_time": {"zero": "the first may come at once"},
    "plan.loads": {"empty": "no arrivals one by one"},
    "write_whole.content": {"empty": "JSON like any other"},
    "source": {"zero": "the first slot"},
    "target": {"zero": "the first slot"},
    "first_slot": {"zero": "the first slot"},
    "Model.window": {"infinity": "no window"},
    **{
        f"Model.{name}": {"zero": _NONE_OF_IT}
        for name in (
            *("q_lora_rank", "kv_lora_rank", "rope_head_dim", "nope_head_dim", "value_head_dim", "ffn_size"),
            *("experts", "experts_per_token", "expert_ffn_size", "shared_experts", "dense_layers", "positions"),
            *("kv_heads", "head_dim", "windowed_layers", "published_params"),
        )
    },
    "Model.published_where": {"empty": "nobody has published a total"},
    "Model.biases": {"empty": "a model may have no bias"},
    "Hardware.facts": {"empty": "a made-up machine has no document"},
}
