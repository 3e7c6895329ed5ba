"""Whether a batch fits: shapes and memory sizes from the catalogues of `lib`."""

from lib.footprint import kv_bytes_per_token, weight_bytes
from lib.hardware import hardware
from lib.model import model

USABLE = 0.9


def fits(accelerator, model_name, tensor_parallel, tokens):
    """Return whether 16-bit weights and `tokens` of 16-bit cache fill at most 90 % of the memory."""
    shape = model(model_name)
    needed = weight_bytes(shape) + tokens * kv_bytes_per_token(shape)
    return bool(needed <= USABLE * hardware(accelerator).capacity * tensor_parallel)
