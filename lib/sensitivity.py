"""Which input moves the cost of a token most: each goes through its range, all others stay at their base."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lib import arguments, engine_step, prices
from lib.batch_limit import within_targets
from lib.deployment import Deployment, Traffic
from lib.offer import FIRST_TOKEN_TIME, TIME_PER_TOKEN
from lib.operating_point import replica

LONGER = 4  # times the output tokens
IDLE = 0.1  # share of the largest load
PACES, PAUSES = (0.1, 0.02), (10.0, 0.3)  # s


class Swing(NamedTuple):
    """What one input does to the cost of a token.

    Attributes
    ----------
    fast, law, slow : tuple of float
        Least and greatest cost over the range of the input, over the cost at the base; with the fast end of the
        law of engines, the law as it is, and the slow end, for case and base alike.
    """

    fast: tuple
    law: tuple
    slow: tuple

    @property
    def spans(self):
        """Least and greatest by the law, then least and greatest with whichever end of it is wider."""
        lows, highs = zip(*self, strict=True)
        return *self.law, min(lows), max(highs)

    @property
    def ratios(self):
        """Greatest over least cost: the smallest such ratio of the three, that by the law, and the largest."""
        found = [high / low for low, high in self]
        return min(found), found[1], max(found)


def swings(base, larger, traffic):
    r"""Return how far each input moves the blended cost of a token at the largest load within the targets.

    Parameters
    ----------
    base, larger : Deployment
        The case, and the one with a larger model.
    traffic : Traffic

    Returns
    -------
    dict of str to Swing
        By input with its range in words, the widest first.

    Raises
    ------
    ValueError
        If an argument breaks its rule, or the base cannot keep its targets.

    Notes
    -----
    One at a time: what two inputs do together is not their product where the targets bind.
    """
    arguments.record("base", base, Deployment)
    arguments.record("larger", larger, Deployment)
    arguments.record("traffic", traffic, Traffic)
    law, rent = engine_step.law(), prices.rent(base.hardware.name)
    longer = replace(traffic, output_tokens=LONGER * traffic.output_tokens)
    cases = {
        f"model, {_size(base)} to {_size(larger)}": [(larger, traffic, {})],
        f"outputs, {LONGER} times as long": [(base, longer, {})],
        "format, 8 to 16 bit": [(replace(base, dtype="bf16"), traffic, {})],
        "target, {:g} to {:g} ms".format(*(1e3 * pace for pace in PACES)): [
            (base, traffic, {"pace": pace}) for pace in PACES
        ],
        "pause, {:g} to {:g} s".format(*PAUSES): [(base, traffic, {"pause": pause}) for pause in PAUSES],
    }
    bases = {slower: _cost((base, traffic, {}), slower) for slower in (law.low, 1.0, law.high)}
    if not np.isfinite(bases[1.0]):
        raise ValueError(f"base must keep its targets, got {base}")
    found = {}
    for name, asked in cases.items():
        costs = [[1.0, *(_cost(one, slower) / cost for one in asked)] for slower, cost in bases.items()]
        found[name] = Swing(*((min(one), max(one)) for one in costs))
    for name, ends in (
        ("load, all to a tenth", (1.0, 1 / IDLE)),
        ("rent, lowest to highest", (rent.low / rent.middle, rent.high / rent.middle)),
        ("engine, fast to slow", (bases[law.low] / bases[1.0], bases[law.high] / bases[1.0])),
    ):
        found[name] = Swing(ends, ends, ends)
    return dict(sorted(found.items(), key=lambda item: -item[1].ratios[1]))


def _cost(case, slower):
    """Return the blended cost in device-seconds a token: at one rent, that is what cost over cost needs."""
    deployment, traffic, targets = case
    one = replica(deployment, traffic, slower=slower)
    pace, pause = targets.get("pace", TIME_PER_TOKEN), targets.get("pause", FIRST_TOKEN_TIME)
    _, rate = within_targets(one, pace, pause) if one else (None, 0.0)
    return deployment.devices / rate / (traffic.prompt_tokens + traffic.output_tokens) if rate else np.inf


def _size(deployment):
    return deployment.model.name.rpartition("-")[2]
