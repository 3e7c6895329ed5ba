"""A traced formula gives the page Python's numbers."""

import json

import numpy as np
import pytest
import vl_convert

from lib import arguments
from lib.expressions import Expression


def in_vega(expression, **values):
    """Return what Vega itself computes for the expression: one text mark holds the result."""
    formula = expression.text
    for name, value in values.items():
        formula = formula.replace(name, f"({value!r})")
    spec = {
        "data": [{"name": "d", "values": [{}], "transform": [{"type": "formula", "as": "y", "expr": formula}]}],
        "marks": [{"type": "text", "from": {"data": "d"},
                   "encode": {"enter": {"text": {"signal": "format(datum.y, '.15e')"}}}}],
    }
    graph = vl_convert.vega_to_scenegraph(json.loads(json.dumps(spec)))
    found = []

    def walk(node):
        if isinstance(node, dict):
            found.extend([node["text"]] if "text" in node else [])
            for item in node.values():
                walk(item)
        elif isinstance(node, list):
            for item in node:
                walk(item)

    walk(graph)
    return float(found[0].replace("\N{MINUS SIGN}", "-"))


def formula(x, y):
    smooth = np.sqrt(x**2 + np.square(y)) + np.exp(-x / 7) - np.log(1 + y)
    return np.where(x > 3, np.maximum(smooth, 2 * x), np.minimum(smooth, 2 - x)) / np.floor(y + 0.5)


@pytest.mark.parametrize(("x", "y"), [(0.3, 2.0), (3.0, 1.25), (3.5, 8.0), (1e3, 1e-2 + 1)])
def test_vega_computes_what_python_computes(x, y):
    traced = formula(Expression("xvalue"), Expression("yvalue"))
    assert in_vega(traced, xvalue=x, yvalue=y) == pytest.approx(float(formula(x, y)), rel=1e-12)


def test_an_operation_that_vega_lacks_is_refused():
    with pytest.raises(ValueError, match="got arctanh"):
        np.arctanh(Expression("x"))
    with pytest.raises(ValueError, match="got sum"):
        np.sum(Expression("x"))


def test_a_symbol_passes_the_checks_and_a_constant_does_not_escape_them():
    symbol = Expression("x")
    assert arguments.array("x", symbol, least=1) is symbol
    assert arguments.number("x", symbol, least=1) is symbol
    with pytest.raises(ValueError, match="constant must be"):
        symbol + np.nan
