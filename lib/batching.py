"""How a server shares its iterations and its memory among requests: policies as records.

Times are s, lengths tokens. A policy says nothing about how long an iteration takes. The
policies that engines ship are in `lib.engines`.
"""

from dataclasses import dataclass, field

import numpy as np

from lib import arguments

PREFILLS = ("elsewhere", "whole", "chunked alone", "piggybacked", "chunked")
ORDERS = ("arrival", "shortest", "priority")
ALLOCATIONS = ("reserved", "paged", "estimated")
VICTIMS = ("latest", "fewest tokens", "last in order")


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
    padded : bool
        Whether those who have finished, and the shorter prompts, are computed to the end of the batch
        all the same. Either way nobody takes their place.
    prefill : {"whole", "elsewhere"}
        Whether the first iteration of a batch reads its prompts, or decodes because another machine has read them.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    cap: float = np.inf
    control_limit: int = 1
    timeout: float = np.inf
    padded: bool = False
    prefill: str = "whole"

    def __post_init__(self):
        cap = arguments.number("cap", self.cap, least=1, whole=True, infinite=True)
        arguments.number("control_limit", self.control_limit, least=1, most=cap, whole=True)
        arguments.number("timeout", self.timeout, least=0, infinite=True)
        arguments.flag("padded", self.padded)
        arguments.choice("prefill", self.prefill, ("whole", "elsewhere"))


def static_batching(size, *, padded=True, prefill="whole"):
    """Return the policy of a coach: it leaves with `size` requests, and comes back with all of them.

    Parameters
    ----------
    size : int
        Requests in a batch, at least 1. Only the last batch may be smaller.
    padded : bool
        Whether those who have finished are computed to the end all the same.
    prefill : {"whole", "elsewhere"}
        As in `DynamicBatching`.

    Returns
    -------
    DynamicBatching

    Raises
    ------
    ValueError
        If an argument leaves its domain.
    """
    size = int(arguments.number("size", size, least=1, whole=True))
    return DynamicBatching(cap=size, control_limit=size, padded=padded, prefill=prefill)


@dataclass(frozen=True, slots=True, kw_only=True)
class KVMemory:
    """Memory for caches, in blocks, and how it is given out.

    Attributes
    ----------
    tokens : int
        Tokens of context that fit, at least 1; may be infinite. What does not fill a block is lost.
    block_size : int
        Tokens of a block, at least 1.
    allocation : {"reserved", "paged", "estimated"}
        Reserved: a request gets the blocks for its prompt and all that it may generate when it is
        admitted. Paged: it gets those of its prompt, and one more whenever its last is full; if there is
        none, somebody gives up all of theirs, goes back to the queue and is computed again. Estimated:
        paged, but admitted only if there is room for a share of what those inside may still generate.
    victim : {"latest", "fewest tokens", "last in order"}
        Who gives up: who was admitted last; who has generated least, of those the longest prompt; who is
        last in the order of the queue.
    back_of_the_queue : bool
        Whether who gave up waits behind all others, or before them.
    reuse : bool
        Whether who gave up finds those of its blocks again that nobody has taken since (a prefix cache).
    spare_share : float
        Of the blocks, kept free when a request is admitted beside others, 0 to 1.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    tokens: float
    block_size: int = 16
    allocation: str = "paged"
    victim: str = "latest"
    back_of_the_queue: bool = False
    reuse: bool = False
    spare_share: float = 0.0

    def __post_init__(self):
        arguments.number("tokens", self.tokens, least=1, whole=True, infinite=True)
        size = arguments.number("block_size", self.block_size, least=1, whole=True)
        if self.tokens < size:
            raise ValueError(f"tokens must be at least block_size, {size:g}, got {self.tokens}")
        arguments.choice("allocation", self.allocation, ALLOCATIONS)
        arguments.choice("victim", self.victim, VICTIMS)
        arguments.flag("back_of_the_queue", self.back_of_the_queue)
        arguments.flag("reuse", self.reuse)
        arguments.number("spare_share", self.spare_share, least=0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What "estimated" memory expects: the share of a request's limit that it will still generate.

    Attributes
    ----------
    start : float
        When the server is idle, above 0, at most 1.
    least : float
        Where it falls to, above 0, at most `start`.
    steps : int
        Iterations in which it falls from the one to the other, at least 1.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    start: float = 0.7
    least: float = 0.098
    steps: int = 600

    def __post_init__(self):
        start = arguments.number("start", self.start, above=0, most=1)
        arguments.number("least", self.least, above=0, most=start)
        arguments.number("steps", self.steps, least=1, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingBack:
    """When waiting prompts are kept from interrupting those who decode.

    Attributes
    ----------
    waiting_share : float
        Prompts board only if those that would are at least this many for each sequence that runs, at least 0.
    patience : int
        After this many iterations, the one that read prompts included, they board however few they are, at least 1.

    Raises
    ------
    ValueError
        If a value leaves its domain.
    """

    waiting_share: float
    patience: int

    def __post_init__(self):
        arguments.number("waiting_share", self.waiting_share, least=0)
        arguments.number("patience", self.patience, least=1, whole=True)


UNLIMITED_MEMORY = KVMemory(tokens=np.inf, block_size=1, allocation="reserved")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuousBatching:
    """Requests join and leave between iterations.

    Attributes
    ----------
    slots : int
        Most requests inside, at least 1; may be infinite.
    token_budget : int
        Most tokens in an iteration, at least 1; may be infinite. Beside decoding, each sequence takes one
        and prompts the rest, so it must be at least `slots` then.
    prefill : {"elsewhere", "whole", "chunked alone", "piggybacked", "chunked"}
        How prompts are read. Elsewhere: on another machine; the first iteration decodes. Whole: in iterations
        of their own, while those who decode stand still; chunked alone: the same, cut to the budget.
        Piggybacked: whole, in an iteration that decodes too; chunked: the same, cut to the budget. A prompt
        that is never cut and larger than the budget is read without other prompts.
    order : {"arrival", "shortest", "priority"}
        Of the queue: first come, first served; fewest output tokens; least priority value of the request.
        Nobody overtakes the first of the queue.
    memory : KVMemory
    estimate : Estimate or None
        For "estimated" memory only.
    holding_back : HoldingBack or None
        Only for prompts read "whole", in order of arrival, with reserved memory. At least one iteration then
        decodes between two that read prompts.
    ahead : bool
        Whether each iteration is planned while the one before it runs, so that the host's work hides behind the
        device's. The plan then knows only who had come, and who had finished, when that one began. Not for "elsewhere".
    source : str
        Where these rules are documented, and of which version.

    Raises
    ------
    ValueError
        If a value leaves its domain, or two do not fit each other.
    """

    slots: float = np.inf
    token_budget: float = np.inf
    prefill: str = "whole"
    order: str = "arrival"
    memory: KVMemory = field(default=UNLIMITED_MEMORY)
    estimate: Estimate | None = None
    holding_back: HoldingBack | None = None
    ahead: bool = False
    source: str = "made up"

    def __post_init__(self):
        slots = arguments.number("slots", self.slots, least=1, whole=True, infinite=True)
        arguments.number("token_budget", self.token_budget, least=1, whole=True, infinite=True)
        arguments.choice("prefill", self.prefill, PREFILLS)
        arguments.choice("order", self.order, ORDERS)
        arguments.record("memory", self.memory, KVMemory)
        arguments.flag("ahead", self.ahead)
        arguments.text("source", self.source)
        if self.ahead and self.prefill == "elsewhere":
            raise ValueError(f"ahead must be false if prompts are read elsewhere, got {self.ahead}")
        if self.prefill in ("piggybacked", "chunked") and self.token_budget < slots:
            raise ValueError(f"token_budget must be at least slots, {slots:g}, got {self.token_budget}")
        if self.prefill == "elsewhere" and self.token_budget < np.inf:
            raise ValueError(f"token_budget must be infinite if prompts are read elsewhere, got {self.token_budget}")
        self._check_estimate()
        self._check_holding_back()

    def _check_estimate(self):
        if (self.memory.allocation == "estimated") != isinstance(self.estimate, Estimate):
            raise ValueError(f"estimate must be an Estimate with estimated memory and None else, got {self.estimate!r}")
        if self.estimate is not None:
            arguments.record("estimate", self.estimate, Estimate)

    def _check_holding_back(self):
        if self.holding_back is None:
            return
        arguments.record("holding_back", self.holding_back, HoldingBack)
        if (self.prefill, self.order, self.memory.allocation) != ("whole", "arrival", "reserved"):
            raise ValueError(
                "holding_back must be None unless prompts are read whole, in order of arrival, with reserved memory,"
                f" got {self.holding_back!r}"
            )


def one_by_one():
    """Return the policy that serves each request alone, in order of arrival.

    Returns
    -------
    ContinuousBatching
    """
    return ContinuousBatching(slots=1)
