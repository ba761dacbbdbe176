"""The local classroom: ``jupyter lab --config classroom/jupyter_server_config.py``.

JupyterLab on the labs, the book under ``/book/``, grades under ``/autograder/``: one origin, one token, and
reachable from this machine only.
"""

from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LABS = ROOT / "labs"

c = get_config()  # type: ignore[name-defined]  # noqa: F821  (Jupyter puts it there)

c.ServerApp.ip = "127.0.0.1"
c.ServerApp.port = 8888
c.ServerApp.port_retries = 50
c.ServerApp.root_dir = str(LABS)
# A learner who looks for the lab should not open its solution by mistake; typing the path still does.
c.ContentsManager.hide_globs = ["__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~", "solutions"]
c.ServerApp.jpserver_extensions = {"autograder.web": True}

# The first lab is what opens; a file that isn't there would open an error box instead.
FIRST = "lab01_tensor.ipynb"
c.LabApp.default_url = f"/lab/tree/{FIRST}" if (LABS / FIRST).is_file() else "/lab"

# Quick autosave (submit() hands in what is on the disk), and no news or update requests to the outside.
c.LabApp.app_settings_dir = str(HERE / "lab_settings")

c.Classroom.book = str(ROOT / "book" / "_build" / "html")
