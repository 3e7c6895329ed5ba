"""What decides a claim: two numbers and the words around them. One module for each chapter that owns claims."""

from dataclasses import dataclass

MACHINE, MODEL, CHAT = "H100 SXM", "Llama-3-8B", "azure-conversation"
CONTEXT = 1024  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The two numbers that decide a claim, and the words that its sentences need.

    Attributes
    ----------
    number, edge : float
        In the article's own conditions, and at the edge of them.
    words : dict of str
    """

    number: float
    edge: float
    words: dict
