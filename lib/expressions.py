"""Trace a formula of the library into an expression that the page can compute.

`Expression("batch")` stands for a slider. Pass it where a function takes an array,
and what comes back is the formula as text in Vega's expression language. So Python
and the page share one definition: there is no second formula to keep in step.
"""

import numpy as np

from lib import arguments

_OPERATORS = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.true_divide: "/",
    np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=",
}
_FUNCTIONS = {
    np.maximum: "max", np.minimum: "min", np.power: "pow", np.sqrt: "sqrt", np.exp: "exp",
    np.log: "log", np.floor: "floor", np.ceil: "ceil", np.absolute: "abs",
}


class Expression(arguments.Symbol, np.lib.mixins.NDArrayOperatorsMixin):
    """A formula in the making.

    Parameters
    ----------
    text : str
        A Vega expression, such as a slider's name or ``datum.context``.
    """

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = arguments.text("text", text)

    def __repr__(self):
        return self.text

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__" or options:
            return NotImplemented
        texts = [_text(item) for item in inputs]
        if ufunc is np.negative:
            return Expression(f"(-{texts[0]})")
        if ufunc is np.square:
            return Expression(f"pow({texts[0]},2)")
        if ufunc in _OPERATORS:
            return Expression(f"({_OPERATORS[ufunc].join(texts)})")
        if ufunc in _FUNCTIONS:
            return Expression(f"{_FUNCTIONS[ufunc]}({','.join(texts)})")
        raise ValueError(f"formula must use operations that Vega has, got {ufunc.__name__}")

    def __array_function__(self, function, types, positional, options):
        if function is np.where and not options:
            return Expression("({}?{}:{})".format(*map(_text, positional)))
        raise ValueError(f"formula must use operations that Vega has, got {function.__name__}")


def _text(item):
    if isinstance(item, Expression):
        return item.text
    return repr(arguments.number("constant", item))


class Steps:
    """Formulas that a page computes one after the other in a row of its data.

    Call it with a name and a formula: it keeps the formula under the name, and returns a symbol for
    it. A long formula stays short that way, because what it uses twice is written once.

    Attributes
    ----------
    formulas : dict of str to str
        In the order in which they are to be computed.
    """

    def __init__(self):
        self.formulas = {}

    def __call__(self, name, formula):
        self.formulas[arguments.text("name", name)] = _text(formula)
        return Expression(f"datum.{name}")
