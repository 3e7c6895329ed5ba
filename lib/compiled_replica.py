"""The loop of `lib.replica`, compiled by numba: the same text, the same results, many times as fast.

Numba is an optional extra: ``pip install one-trip-many-tokens[fast]``. The first call compiles,
which takes the better part of a minute; later processes find the machine code in numba's cache.
"""

from functools import cache
from types import FunctionType

from lib import replica


@cache
def compiled_advance():
    """Return `lib.replica.advance`, compiled, for arrays and an affine step.

    Raises
    ------
    ImportError
        If numba is not installed.
    """
    import numba

    names = dict(vars(replica))
    for name in ("iterations_until", "blocks_wanted", "steps_that_fit", "victim_of", "advance"):
        plain = getattr(replica, name)
        names[name] = numba.njit(cache=True)(FunctionType(plain.__code__, names, name, plain.__defaults__))
    return names["advance"]
