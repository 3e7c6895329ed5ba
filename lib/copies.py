"""A copy of each file that a page offers, as a script: a page opened from a folder may load no other kind.

There the browser ignores that a link is a download and opens the file in place of saving it.
``static/copies.js`` saves the copy instead. Without scripts, and when served, the files themselves are used.
"""

import base64
import json
import shutil
from pathlib import Path

from lib import downloads, figures

FOLDER = "_static/copies"


def register(app):
    """Register the event with Sphinx: last, when the files are there."""
    app.connect("build-finished", _write_copies, priority=900)


def _write_copies(app, error):
    if error or app.builder.format != "html":
        return
    root = Path(app.outdir)
    shutil.rmtree(root / FOLDER, ignore_errors=True)
    (root / FOLDER).mkdir(parents=True)
    for folder in (figures.FOLDER, downloads.FOLDER):
        for path in sorted((root / folder).iterdir()):
            copy = root / FOLDER / f"{path.name}.js"
            copy.write_text(as_script(path.name, path.read_bytes()), encoding="utf-8")


def as_script(name, content):
    """Return the script that hands a file over to ``static/copies.js``: as text, or packed if it is none.

    Parameters
    ----------
    name : str
    content : bytes
    """
    try:
        text, packed = content.decode("utf-8"), False
    except UnicodeDecodeError:
        text, packed = base64.b64encode(content).decode("ascii"), True
    return f"saveCopy({json.dumps(name)}, {json.dumps(text)}, {json.dumps(packed)});\n"
