"""Build the book: nothing stale, nothing twice, and no failure in silence.

Executed chapters are kept in ``_build/.executed`` under a digest of everything that they
import and read; when that changes, they are dropped. What was made of the pages is kept
only by a build that succeeded, so that after a failure, or an interruption, the next
build says again what is wrong.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE_SIDE = {"book.py", "figures.py", "controls.py", "downloads.py", "copies.py"}  # read by Sphinx, not by the chapters
PROBLEM = re.compile(r"\b(WARNING|ERROR|SEVERE|CRITICAL): |^(Exception occurred|Extension error)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def digest(paths):
    """Return the SHA-256 of the files' names and contents."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()


def inputs():
    """Return the digests of what chapters compute with, of what the pages are made with, and of the chapters."""
    code = [*ROOT.glob("lib/*.py")]
    facts = [path for folder in ("lib/data", "measurements") for path in (ROOT / folder).rglob("*") if path.is_file()]
    lock = [ROOT / "requirements.txt", ROOT / "constraints.txt"]
    computed = [path for path in code if path.name not in PAGE_SIDE]
    dress = [path for folder in ("lib/static", "lib/templates") for path in (ROOT / folder).glob("*")]
    shown = [*code, *dress, *ROOT.glob("*.bib"), *ROOT.glob("_*.yml"), ROOT / "CITATION.cff"]
    texts = [*ROOT.glob("*.md"), *ROOT.glob("chapters/*.md"), ROOT / "_toc.yml"]
    return {
        "executed": digest([*computed, *facts, *lock]), "pages": digest([*shown, *facts, *lock]),
        "chapters": digest(texts),
    }  # fmt: skip


def drop_stale(build, now):
    """Remove what was made with other inputs, and the reports of the last failure."""
    kept = {
        "executed": [".executed", "jupyter_execute", ".doctrees"],
        "pages": [".doctrees", "html/chapters", "html/notebooks"],
    }
    for name, folders in kept.items():
        record = build / f"{name}.sha256"
        if not record.exists() or record.read_text() != now[name]:
            for folder in folders:
                shutil.rmtree(build / folder, ignore_errors=True)
    shutil.rmtree(build / "html" / "reports", ignore_errors=True)
    build.mkdir(exist_ok=True)
    (build / "executed.sha256").write_text(now["executed"])
    (build / "pages.sha256").unlink(missing_ok=True)  # until the build succeeds


def execute_ahead(build, now):
    """Execute what no executed copy is kept of, side by side; Sphinx alone does it one after another.

    What fails there is left to Sphinx, which says what is wrong.
    """
    record = build / "chapters.sha256"
    if (build / ".executed").exists() and record.exists() and record.read_text() == now["chapters"]:
        return
    record.unlink(missing_ok=True)  # until the build succeeds
    subprocess.run([sys.executable, str(ROOT / "scripts" / "execute_chapters.py")], cwd=ROOT, check=False)


def run():
    """Run Jupyter Book, show its progress, and return its exit status and the lines that complain."""
    program = "import gc; gc.disable(); from jupyter_book.cli.main import main; main()"  # an eighth faster
    command = [sys.executable, "-c", program, "build", str(ROOT)]
    command += ["--warningiserror", "--nitpick", "--keep-going"]
    process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    problems = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        plain = COLOUR.sub("", line).strip()
        if PROBLEM.search(plain):
            problems.append(plain)
    return process.wait(), problems


def main():
    build, now, started = ROOT / "_build", inputs(), time.monotonic()
    os.environ.update(BOOK_BUILD="1", PYTHONHASHSEED="0", SOURCE_DATE_EPOCH="0")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # chapters share the processors, and sums keep their order
    drop_stale(build, now)
    execute_ahead(build, now)
    status, problems = run()
    if status or problems:
        print(f"\nThe book was not built: {len(problems)} problems.", file=sys.stderr)
        for problem in dict.fromkeys(problems):
            print(f"  {problem.replace(str(ROOT) + '/', '')}", file=sys.stderr)
        for report in sorted((build / "html" / "reports").rglob("*.log")):
            text = COLOUR.sub("", report.read_text(encoding="utf-8"))
            print(f"\n{report.relative_to(build)}:\n{text[-2500:]}", file=sys.stderr)
        return status or 1
    for name in ("pages", "chapters"):
        (build / f"{name}.sha256").write_text(now[name])
    print(f"Built in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
