"""When a server starts a batch, and whom it takes: policies as records.

Times are s. A policy says nothing about how long a batch takes.
"""

from dataclasses import dataclass

import numpy as np

from lib import arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBatching:
    """A batch starts as soon as the server is free and enough requests wait, or one has waited enough.

    Attributes
    ----------
    cap : int
        Most requests in a batch, at least 1; may be infinite.
    control_limit : int
        Fewest requests in a batch that starts before the timeout, 1 to `cap`: 1 serves what there is.
    timeout : float
        Longest that the oldest request waits before an idle server starts without the limit, s,
        at least 0; may be infinite.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    cap: float = np.inf
    control_limit: int = 1
    timeout: float = np.inf

    def __post_init__(self):
        cap = arguments.number("cap", self.cap, least=1, whole=True, infinite=True)
        arguments.number("control_limit", self.control_limit, least=1, most=cap, whole=True)
        arguments.number("timeout", self.timeout, least=0, infinite=True)
