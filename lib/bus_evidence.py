"""Evidence of the loop bus: C09, C10 and C13."""

from lib import hardware, loop_bus, memory
from lib import model as models
from lib.article import PASSENGERS
from lib.evidence import CONTEXT, Evidence
from lib.length_fit import max_ratio
from lib.lengths import MeasuredLengths
from lib.units import quantity


def _next_step():
    found = {engine: loop_bus.served(engine) for engine in loop_bus.ENGINES}
    slowest = max(found, key=lambda engine: found[engine].held_back)
    words = {
        "load": quantity(loop_bus.LOAD, "", digits=1), "slowest": slowest,
        "held": quantity(found[slowest].held_back, "", digits=2), "first": quantity(found["vLLM"].held_back, ""),
    }  # fmt: skip
    return Evidence(number=found["vLLM"].held_back, edge=found[slowest].held_back, words=words)


def _full_cores():
    machine, subject = hardware.hardware(loop_bus.MACHINE), models.model(loop_bus.MODEL)
    most = int(memory.largest_batch(machine, subject, CONTEXT))
    used, used_most = (float(share) for share in loop_bus.arithmetic_used([PASSENGERS, most], CONTEXT))
    ratio = float(max_ratio(MeasuredLengths(workload=loop_bus.WORKLOAD, quantity="output"), PASSENGERS))
    words = {
        "machine": machine.name, "model": subject.name, "passengers": quantity(PASSENGERS, ""),
        "context": quantity(CONTEXT, ""), "most": quantity(most, ""), "used": quantity(used, "%", digits=2),
        "used_most": quantity(used_most, "%", digits=2), "slots_coach": quantity(1 / ratio, "%", digits=2),
    }  # fmt: skip
    return Evidence(number=used, edge=used_most, words=words)


def _tens_of_times():
    gain, busy = loop_bus.gains(), loop_bus.served("vLLM", loop_bus.BUSY)
    coach = float(max_ratio(MeasuredLengths(workload=loop_bus.WORKLOAD, quantity="output"), PASSENGERS))
    words = {
        "slots": quantity(loop_bus.SLOTS, ""), "passengers": quantity(PASSENGERS, ""), "gain": quantity(gain, "times"),
        "coach": quantity(coach, "times"), "workload": loop_bus.WORKLOAD, "busy": quantity(loop_bus.BUSY, "", digits=1),
        "first": quantity(busy.first_token, "s", digits=2), "first_p99": quantity(busy.first_token_p99, "s", digits=2),
        "alone": quantity(loop_bus.alone_first_token(), "s", digits=2),
    }  # fmt: skip
    return Evidence(number=gain, edge=coach, words=words)


EVIDENCE = {"C09": _next_step, "C10": _full_cores, "C13": _tens_of_times}
