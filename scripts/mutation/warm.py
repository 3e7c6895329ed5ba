"""A warm test run: everything is imported and collected once, and each mutant is a fork of it.

In the fork the code of one function is exchanged, so all who imported it see the mutant, and the
tests that reach it run until one fails: those that killed its siblings first, then by line and time.
"""

import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

import hypothesis
import pytest

MEMORY = 6 << 30


class Warm:
    """A pytest plugin that hands the collected tests to `work` instead of running them."""

    def __init__(self, root, modules, work):
        self.root, self.modules, self.work = root, modules, work
        self.reach, self.times, self.killers = {}, {}, {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self):
        # A red test is enough; its smallest example is not needed.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutants", phases=phases, database=None, derandomize=True, deadline=None)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        items = [item for item in session.items if not item.get_closest_marker("alone")]
        self.items = {item.nodeid: item for item in items}
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            self.watch()
            gc.collect()
            gc.freeze()
            self.work(self)
        return True

    def watch(self):
        """Learn, in a fork, how long each test takes and which lines of the modules it reaches; remember it by file."""
        formulas = b"".join((self.root / "lib" / f"{module}.py").read_bytes() for module in self.modules)
        for path in dict.fromkeys(item.path for item in self.items.values()):
            key = hashlib.sha256(formulas + path.read_bytes()).hexdigest()[:16]
            seen = Path(tempfile.gettempdir()) / f"mutants_reach_{path.stem}_{key}.json"
            if not seen.exists():
                mine = [name for name, item in self.items.items() if item.path == path]
                answer = self.forked(lambda mine=mine: self._watched(mine), seconds=3_600)
                if answer is None or answer["red"]:
                    raise SystemExit(f"{path.name}: tests fail without a mutant: {answer and answer['red']}")
                seen.write_text(json.dumps(answer), encoding="utf-8")
                print(f"watched {path.name}", flush=True)
            answer = json.loads(seen.read_text(encoding="utf-8"))
            self.times |= answer["times"]
            self.reach |= {name: {tuple(place) for place in places} for name, places in answer["reach"].items()}

    def _watched(self, names):
        files = {str(self.root / "lib" / f"{module}.py"): module for module in self.modules}
        reached = set()

        def on_line(frame, event, _):
            if event == "line":
                reached.add((files[frame.f_code.co_filename], frame.f_lineno))
            return on_line

        def on_call(frame, *_):
            return on_line if frame.f_code.co_filename in files else None

        times, reach, red = {}, {}, []
        for name in names:
            reached.clear()
            sys.settrace(on_call)
            began = time.process_time()
            passed = _passes(self.items[name])
            sys.settrace(None)
            times[name] = time.process_time() - began
            reach[name] = [*reached]
            red += [] if passed else [name]
        return {"times": times, "reach": reach, "red": red}

    def forked(self, act, *, seconds):
        """Return what `act` returns in a fork that may use so much processor time, or None if it has no answer."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with contextlib.suppress(BaseException):
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    answer = json.dumps(act())
                with os.fdopen(writing, "w") as opened:
                    opened.write(answer)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as opened:
            answer = opened.read()
        os.waitpid(child, 0)
        return json.loads(answer) if answer else None

    def tests_of(self, mutant):
        """Return the tests that reach the function, the likeliest to kill first."""
        hits, whole = ({(mutant.module, line) for line in lines} for lines in (mutant.lines, mutant.extent))
        if mutant.code.co_consts and not _codes(mutant.code):  # a constant: whatever reaches the module
            whole = {place for places in self.reach.values() for place in places if place[0] == mutant.module}
        before = self.killers.setdefault((mutant.module, mutant.owner), [])[:5]
        return sorted(
            [name for name, places in self.reach.items() if places & whole],
            key=lambda name: (
                before.index(name) if name in before else 5, not self.reach[name] & hits, self.times[name]),
        )

    def killer_of(self, mutant, *, seconds):
        """Return the test that kills the mutant, "time" or "nothing", among so many seconds of tests."""
        names, spent = [], 0.0
        for name in self.tests_of(mutant):
            spent += self.times[name]
            if names and spent > seconds:
                break
            names.append(name)

        def act():
            _exchange(mutant)
            for name in names:
                # Whoever takes many times as long is ended by the signal.
                signal.setitimer(signal.ITIMER_PROF, 1 + 5 * self.times[name])
                if not _passes(self.items[name]):
                    return name
            return "nothing"

        killer = self.forked(act, seconds=20 + 5 * spent) or "time"
        if killer in self.items:
            before = self.killers[mutant.module, mutant.owner]
            before[:] = [killer, *(name for name in before if name != killer)]
        return killer


def _passes(item):
    """Run a test; return whether it passed or was skipped."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, nextitem=None, log=False)
    return not any(report.failed for report in reports)


def _codes(code):
    """Return the functions defined in `code`, by name."""
    return {part.co_name: part for part in code.co_consts if isinstance(part, types.CodeType)}


def _exchange(mutant):
    """Give one function, or constant, of the imported module the code of the mutant."""
    holder, codes = importlib.import_module(f"lib.{mutant.module}"), _codes(mutant.code)
    if not codes:
        exec(mutant.code, vars(holder))
        return
    for name in mutant.owner.split("."):
        holder, code, codes = getattr(holder, name), codes.get(name), codes
    holder.__code__ = code


def run(root, suites, modules, work):
    """Collect the tests of `suites` and hand them to `work`."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.chdir(root)
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "--assert=plain"]
    code = pytest.main([*options, *suites], plugins=[Warm(root, modules, work)])
    if code:
        raise SystemExit(int(code))
