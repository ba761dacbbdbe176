"""The local classroom: ``jupyter lab --config classroom/jupyter_server_config.py``.

JupyterLab on the labs, the book under ``/book/``, grades under ``/autograder/``: one origin, one token, and
reachable from this machine only. A person's server on a hub reads it too: there the labs lie in their own folder,
and the grades are the class's.
"""

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ON_HUB = bool(os.environ.get("JUPYTERHUB_SERVICE_PREFIX"))
LABS = Path.home() / "labs" if ON_HUB else ROOT / "labs"

c = get_config()  # type: ignore[name-defined]  # noqa: F821  (Jupyter puts it there)

if ON_HUB:
    # The hub says where it listens. A server that nobody uses gives its memory back.
    c.ServerApp.shutdown_no_activity_timeout = 3600
    c.MappingKernelManager.cull_idle_timeout = 1800
    c.MappingKernelManager.cull_interval = 120
else:
    c.ServerApp.ip = "127.0.0.1"
    c.ServerApp.port = 8888
    c.ServerApp.port_retries = 50
c.ServerApp.root_dir = str(LABS)
# A learner who looks for the lab should not open its solution by mistake; typing the path still does.
c.ContentsManager.hide_globs = ["__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~", "solutions"]
c.ServerApp.jpserver_extensions = {"classroom.lab_server": True} | ({} if ON_HUB else {"autograder.web": True})
# nbgrader, where it is installed, puts a second way to check and collect beside ours, which leads nowhere here.
NBGRADER = ("formgrader", "validate_assignment", "assignment_list", "course_list")
c.ServerApp.jpserver_extensions |= {f"nbgrader.server_extensions.{name}": False for name in NBGRADER}
# The Submit button, as JupyterLab loads what was built for it.
c.LabServerApp.extra_labextensions_path = c.LabApp.extra_labextensions_path = [str(HERE / "labextensions")]

# The first lab is what opens; a file that isn't there would open an error box instead.
FIRST = "lab01_tensor.ipynb"
c.LabApp.default_url = f"/lab/tree/{FIRST}" if (LABS / FIRST).is_file() else "/lab"

# Quick autosave (submit() hands in what is on the disk), and no news or update requests to the outside.
c.LabApp.app_settings_dir = str(HERE / "lab_settings")

c.Classroom.book = str(ROOT / "book" / "_build" / "html")
