"""Execute the chapters that no executed copy is kept of: side by side, and each in a warm kernel.

Sphinx executes one chapter after another, and each kernel spends seconds on imports, and a
second more before its first chart. Here one process imports what the chapters import, and every
kernel is a copy of it; another one draws for all of them. A chapter that fails is left to Sphinx,
which executes it in a kernel of its own and says what is wrong.
"""

import ast
import contextlib
import gc
import io
import multiprocessing
import os
import re
import sys
import tempfile
from multiprocessing.connection import wait
from multiprocessing.managers import BaseManager
from pathlib import Path

import vl_convert
import yaml
from ipykernel.kernelapp import IPKernelApp
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from jupyter_cache.readers import get_reader
from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

ROOT = Path(__file__).resolve().parent.parent
READER = {"name": "myst_nb_md", "type": "plugin"}
FORKS_SAFELY = sys.platform == "linux"  # macOS has libraries that do not survive a fork


def chapters(cache):
    """Return path to notebook of the chapters to execute, those with most code first: they take longest.

    Parameters
    ----------
    cache : JupyterCacheAbstract
        Holds what was executed before.

    Returns
    -------
    dict of Path to NotebookNode
        Without chapters that set times of their own, which only Sphinx knows to keep.
    """
    contents = re.findall(r"(?m)^ *(?:- file|root): *(\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    read = get_reader(READER)
    pages = [page for page in (ROOT / f"{name}.md" for name in contents) if _has_plain_cells(page)]
    notebooks = {page: read(str(page)) for page in pages}
    missing = {page: notebook for page, notebook in notebooks.items() if not _is_kept(cache, notebook)}
    return dict(sorted(missing.items(), key=lambda item: -len("".join(_code(item[1])))))


def _has_plain_cells(page):
    if not page.exists():
        return False
    front_matter = page.read_text(encoding="utf-8").split("\n---\n")[0]
    return "kernelspec:" in front_matter and "mystnb:" not in front_matter


def _is_kept(cache, notebook):
    try:
        return bool(cache.match_cache_notebook(notebook))
    except KeyError:
        return False


def _code(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


class DrawingProcess(BaseManager):
    """Holds the library that draws charts: it takes a second to start, and no copy of a started one works."""


DrawingProcess.register("library", lambda: vl_convert, exposed=["vegalite_to_svg"])


def drawing_apart():
    """Let this process, and all copies of it, draw in another."""
    apart = DrawingProcess(ctx=multiprocessing.get_context("fork"))
    apart.start()
    vl_convert.vegalite_to_svg = apart.library().vegalite_to_svg
    return apart


def warmed(notebooks):
    """Import what the notebooks import; tell whether that was silent, as a kernel's start must be.

    Parameters
    ----------
    notebooks : iterable of NotebookNode

    Returns
    -------
    bool
        False if an import complained: then every chapter must hear it, from a kernel of its own.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        for source in dict.fromkeys(source for notebook in notebooks for source in _code(notebook)):
            for statement in _imports(source):
                with contextlib.suppress(Exception):  # the chapter will say so
                    exec(compile(ast.Module([statement], []), "<imports>", "exec"), {})
    gc.freeze()  # no copy has to search what all copies share
    return not said.getvalue()


def _imports(source):
    try:
        return [part for part in ast.parse(source).body if isinstance(part, ast.Import | ast.ImportFrom)]
    except SyntaxError:
        return []


def executed(notebooks, timeout, warm):
    """Execute notebooks, as many at a time as there are processors.

    Parameters
    ----------
    notebooks : dict of Path to NotebookNode
    timeout : float
        Seconds for a cell.
    warm : bool
        Whether kernels are forked from this process, or started anew.

    Yields
    ------
    Path, NotebookNode, float
        As they end: page, notebook with outputs, seconds. Those that failed are left out.
    """
    context = multiprocessing.get_context("fork" if warm else "spawn")
    waiting, running = list(notebooks.items()), {}
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            page, notebook = waiting.pop(0)
            print(f"{page.relative_to(ROOT)}: Executing notebook, {os.cpu_count()} at a time", flush=True)
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_execute, args=(page, notebook, timeout, warm, sender))
            process.start()
            sender.close()
            running[receiver] = page, process
        for receiver in wait([*running]):
            page, process = running.pop(receiver)
            with contextlib.suppress(EOFError):  # it failed
                yield page, *receiver.recv()
            process.join()


def _execute(page, notebook, timeout, warm, sender):
    with tempfile.TemporaryDirectory() as folder:
        kernel = {"km": _forked_kernel(page.parent, folder)} if warm else {}
        options = {"cwd": str(page.parent), "timeout": timeout, "allow_errors": False, **kernel}
        with contextlib.suppress(RuntimeError):  # the kernel died: Sphinx will say so
            result = single_nb_execution(notebook, **options)
            if result.err is None:
                sender.send((result.nb, result.time))


def _forked_kernel(place, folder):
    """Return the manager of a kernel that is a copy of this process, and ends with it."""
    manager = AsyncKernelManager(
        kernel_name="python3", transport="ipc", ip=f"{folder}/kernel", connection_file=f"{folder}/kernel.json"
    )
    manager.write_connection_file()
    process = multiprocessing.get_context("fork").Process(
        target=_be_a_kernel, args=(place, manager.connection_file, os.getpid()), daemon=True
    )
    process.start()
    process.poll = lambda: process.exitcode  # what a provisioner asks of a process
    manager.provisioner = LocalProvisioner(parent=manager)
    manager.provisioner.process = process
    return manager


def _be_a_kernel(place, connection_file, parent):
    os.chdir(place)
    sys.path.remove(str(Path(__file__).parent))  # where this script lies, and no chapter
    arguments = ["-f", connection_file, "--HistoryManager.hist_file=:memory:"]
    IPKernelApp.launch_instance(arguments, parent_handle=parent)


def main():
    cache = get_cache(ROOT / "_build" / ".executed")
    notebooks = chapters(cache)
    if not notebooks:
        return
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["execute"]
    with drawing_apart() if FORKS_SAFELY else contextlib.nullcontext():
        warm = FORKS_SAFELY and warmed(notebooks.values())
        for page, notebook, seconds in executed(notebooks, settings["timeout"], warm):
            made = CacheBundleIn(notebook, str(page), data={"execution_seconds": seconds})
            cache.cache_notebook_bundle(made, check_validity=False, overwrite=True)


if __name__ == "__main__":
    main()
