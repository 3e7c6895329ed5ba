"""Every public function of lib refuses what it cannot use, and says which argument it was."""

import dataclasses
import inspect
import math
import re
from collections.abc import Mapping
from importlib import import_module
from itertools import combinations
from numbers import Real
from os import PathLike

import numpy as np
import pytest

from lib.domains import DOMAINS
from tests.test_layers import LAYER_OF, LIB, imports, modules
from tests.valid_calls import ALLOWED, CALLS, Text, Without

# What a function takes apart from its options: refused by the page, or tested elsewhere.
TRIED = [name for name in modules(LIB) if LAYER_OF.get(name) != "page" and name != "arguments"]
NUMBERS = {
    "NaN": math.nan, "infinity": math.inf, "minus infinity": -math.inf, "negative": -1, "zero": 0,
    "a word": "many", "empty": np.array([]),
}  # fmt: skip


def public(module):
    """Return the public functions and classes that a module defines, by name."""
    found = vars(module).items()
    named = {name: thing for name, thing in found if not name.startswith("_") and hasattr(thing, "__module__")}
    return {
        name: thing
        for name, thing in named.items()
        if thing.__module__ == module.__name__ and (inspect.isclass(thing) or callable(thing)) and not _is_value(thing)
    }


def _is_value(thing):
    return dataclasses.is_dataclass(thing) and not inspect.isclass(thing)


def bad_values(value):
    """Return what an argument that takes `value` must refuse, by what is wrong with it."""
    if isinstance(value, Text):
        return {"empty": "", "a number": 3}
    if isinstance(value, str):
        return {"an unknown option": "no such option", "a number": 3}
    if isinstance(value, bool):
        return {"a word": "yes", "a number": 3}
    if isinstance(value, Real):
        return NUMBERS
    layout = isinstance(value, (list, tuple, np.ndarray)) and not hasattr(value, "_fields")
    if layout and len(value) and not isinstance(value[0], str):
        return {what: _with_first(value, bad) for what, bad in NUMBERS.items() if what != "empty"} | {"empty": []}
    if layout:
        return {"an unknown option": ("no such option",), "a number": 3}
    if isinstance(value, PathLike):
        return {}  # a file that is missing is named by the operating system; a bad one has tests of its own
    wrong = {"a word": "many", "a number": 3}
    return wrong | {"empty": {}} if isinstance(value, Mapping) else wrong


def _with_first(values, bad):
    values = [*values]
    return [bad, *values[1:]]


def allowed(function, argument):
    """Return the kinds of value that `ALLOWED` lets this argument have, with the reasons."""
    return ALLOWED.get(f"{function}.{argument}", ALLOWED.get(argument, {}))


def refusal(function, arguments, *names):
    """Return what is wrong with how the function takes these arguments: "" if it refuses them and says which."""
    try:
        function(**arguments)
    except ValueError as error:
        missing = [name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", str(error))]
        if missing:
            return f"does not name {' and '.join(missing)}: {error}"
        return "" if re.search(r"\bgot\b", str(error)) else f"does not show the value: {error}"
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    return "is accepted"


def takes_arrays(function, arguments, name):
    """Tell whether the argument, a single number in the valid call, may be an array."""
    try:
        function(**arguments | {name: np.full(2, arguments[name])})
    except (ValueError, TypeError):
        return False
    return True


def faults(name, function, arguments):
    """Return every bad value that the function lets through or refuses badly."""
    found = []
    swept = [argument for argument, value in arguments.items() if type(value) in (int, float)]
    swept = [argument for argument in swept if takes_arrays(function, arguments, argument)]
    for argument, value in arguments.items():
        cases = dict(bad_values(value))
        if argument in swept:
            cases["NaN in an array"] = np.array([value, math.nan])
        for what, bad in cases.items():
            wrong = refusal(function, arguments | {argument: bad}, argument)
            if wrong and not (wrong == "is accepted" and what in allowed(name, argument)):
                found.append(f"{name}({argument}={bad!r}) {wrong}")
    for one, two in combinations(swept, 2):
        unequal = {one: np.full(2, arguments[one]), two: np.full(3, arguments[two])}
        wrong = refusal(function, arguments | unequal, one, two)
        if wrong:
            found.append(f"{name}({one} of shape (2,), {two} of shape (3,)) {wrong}")
    return found


def calls(module, name):
    """Return the valid calls of a function: none, one or several."""
    given = CALLS.get(module, {}).get(name, [])
    if isinstance(given, Without):
        return []
    return given if isinstance(given, list) else [given]


def of_the_queueing(module):
    """Tell whether the arguments of a module are the words of `lib.domains`."""
    return ("lib", "domains") in imports(LIB / f"{module}.py")


def beyond(word):
    """Return what the domain of a word excludes, apart from `NUMBERS`."""
    rule = DOMAINS.get(word, {})
    return {"a fraction": 1.5} if rule.get("whole") else {"too much": rule["most"] + 0.1} if "most" in rule else {}


EACH_FUNCTION = [
    pytest.param(module, name, function, id=f"{module}.{name}")
    for module in TRIED
    for name, function in public(import_module(f"lib.{module}")).items()
]


@pytest.mark.parametrize("module", TRIED)
def test_each_public_function_has_a_valid_call_in_the_table(module):
    functions, table = {*public(import_module(f"lib.{module}"))}, {*CALLS.get(module, {})}
    assert functions - table == set(), "add a line to tests/valid_calls.py"
    assert table - functions == set(), "no such function any more"


@pytest.mark.parametrize(("module", "name", "function"), EACH_FUNCTION)
def test_a_valid_call_gives_every_argument_and_is_accepted(module, name, function):
    for arguments in calls(module, name):
        assert [*arguments] == [*inspect.signature(function).parameters]
        function(**arguments)


@pytest.mark.parametrize(("module", "name", "function"), EACH_FUNCTION)
def test_a_bad_argument_is_refused_by_name(module, name, function):
    found = [fault for arguments in calls(module, name) for fault in faults(name, function, arguments)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("module", "name", "function"), EACH_FUNCTION)
def test_a_word_of_the_queueing_keeps_its_domain(module, name, function):
    found = []
    for arguments in calls(module, name) if of_the_queueing(module) else []:
        for word, value in arguments.items():
            for bad in beyond(word).values():
                given = bad if np.ndim(value) == 0 else _with_first(value, bad)
                wrong = refusal(function, arguments | {word: given}, word)
                found += [f"{name}({word}={bad}) {wrong}"] if wrong else []
    assert found == []


@pytest.mark.parametrize(("module", "name", "function"), EACH_FUNCTION)
def test_a_function_has_few_parameters_and_says_what_they_are(module, name, function):
    given = calls(module, name)
    if inspect.isclass(function) or not given:
        return
    parameters = inspect.signature(function).parameters.values()
    places = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert len(places) <= 5
    text = inspect.getdoc(function)
    assert "\n---" not in text or not parameters or "Parameters\n---" in text
    if of_the_queueing(module):
        assert [p.name for p in places if p.default is not p.empty] == []
        assert [part for part in ("Parameters", "Returns", "Raises", "Notes") if f"{part}\n---" not in text] == []
        assert "Source:" in text or "[derived]" in text


def test_every_allowance_is_of_an_argument_that_exists():
    known = {argument for table in CALLS.values() for given in table.values() for argument in _arguments_of(given)}
    named = {key.rpartition(".")[2] for key in ALLOWED}
    assert named - known == set()


def _arguments_of(given):
    if isinstance(given, Without):
        return []
    return [argument for arguments in (given if isinstance(given, list) else [given]) for argument in arguments]


def careless(rate, *, kind="a"):
    """A function that checks nothing."""
    return rate * 2


def test_a_function_that_checks_nothing_is_found_out():
    found = faults("careless", careless, {"rate": 1.0, "kind": "a"})
    assert "careless(rate=nan) is accepted" in found
    assert "careless(kind='no such option') is accepted" in found


def test_a_refusal_that_names_nothing_is_found_out():
    def curt(rate):
        raise ValueError("bad input")

    assert refusal(curt, {"rate": 1.0}, "rate") == "does not name rate: bad input"


def test_a_crash_is_no_refusal():
    assert refusal(careless, {"rate": None}, "rate").startswith("raises TypeError")


def test_shapes_that_do_not_fit_and_are_not_named_are_found_out():
    def product(rate, time):
        return np.multiply(rate, time)

    assert any("rate of shape (2,), time of shape (3,)" in fault for fault in faults("product", product, {
        "rate": 1.0, "time": 1.0
    }))  # fmt: skip
