"""Evidence of what a shared trip costs: C05 and C06."""

import numpy as np

from lib import amortisation
from lib.article import PASSENGERS
from lib.evidence import CONTEXT, Evidence
from lib.units import quantity


def _same_time():
    kernels, engines = amortisation.kernel_ratios(PASSENGERS), amortisation.engine_ratios(PASSENGERS)
    classes = np.array([amortisation.model_class(name) for name in kernels["model"].tolist()])
    mine = kernels["ratio"][(classes == amortisation.CLASSES[0]) & (kernels["context"] <= CONTEXT)]
    most = int(np.argmax(kernels["ratio"]))
    fits = engines["ratio"][engines["fits"] == "yes"]
    words = {
        "models": "70B with shared key heads", "context": quantity(CONTEXT, ""),
        "kernels": quantity(float(np.median(mine)), "times"), "most": quantity(kernels["ratio"][most], "times"),
        "worst": f"{kernels['model'][most]} at {quantity(kernels['context'][most], 'token')}",
        "engine_least": quantity(fits.min(), "times"), "engine_most": quantity(fits.max(), "times"),
    }  # fmt: skip
    return Evidence(number=float(np.median(mine)), edge=float(kernels["ratio"][most]), words=words)


def _cost_share():
    kernels, engines = amortisation.kernel_ratios(PASSENGERS), amortisation.engine_ratios(PASSENGERS)
    fall = PASSENGERS / engines["ratio"]
    fits = engines["fits"] == "yes"
    best = int(np.argmax(np.where(fits, fall, 0)))
    parallel = int(engines["tensor_parallel"][best])
    words = {
        "best": quantity(round(fall[best]), ""), "typical": quantity(round(float(np.median(fall[fits]))), ""),
        "worst": quantity(round(fall[fits].min()), ""), "waves": quantity(round(float(np.median(fall[~fits]))), ""),
        "kernels": quantity(round(PASSENGERS / kernels["ratio"].min()), ""),
        "where": f"{engines['model'][best]}, {engines['engine'][best]}, {parallel} x {engines['accelerator'][best]}",
    }  # fmt: skip
    return Evidence(number=float(fall[best]), edge=float(PASSENGERS / kernels["ratio"].min()), words=words)


EVIDENCE = {"C05": _same_time, "C06": _cost_share}
