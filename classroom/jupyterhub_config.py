"""The hub of a class on one machine: ``make hub``, or ``jupyterhub -f classroom/jupyterhub_config.py``.

What differs between machines comes from the environment:

CLASSROOM_STATE             the folder for all that is kept (``.run/hub``)
CLASSROOM_GRADEBOOK         the address of the gradebook (a file in that folder)
CLASSROOM_PORT              where the class comes in (8000)
CLASSROOM_BIND              the address it listens on (127.0.0.1)
CLASSROOM_PROXY             the proxy's program and its first arguments, as JSON
CLASSROOM_WITHOUT_ISOLATION 1: everybody's server as one user, with one file system
CLASSROOM_WORKERS           how many submissions are graded at a time (1)
CLASSROOM_SETTINGS          a Python file with more settings, read last: another authenticator, TLS, a domain
"""

import json
import os
import shutil
import socket
import sys
from pathlib import Path

from classroom import authenticator
from classroom.authenticator import ClassAuthenticator
from classroom.places import NAME, ROOT, SERVICE, Place, in_address
from classroom.spawner import ClassSpawner

c = get_config()  # type: ignore[name-defined]  # noqa: F821  (JupyterHub puts it there)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


place = Place.current()
place.make()
port = int(os.environ.get("CLASSROOM_PORT", "8000"))
bind = os.environ.get("CLASSROOM_BIND", "127.0.0.1")
bin_folder = str(Path(sys.executable).parent)

c.JupyterHub.bind_url = f"http://{in_address(bind)}:{port}/"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{free_port()}"
c.JupyterHub.db_url = f"sqlite:///{place.state / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(place.state / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(place.runtime / "proxy.pid")
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{free_port()}"
# What the hub starts ends with it, also where the hub is killed.
dying = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
proxy = os.environ.get("CLASSROOM_PROXY")
c.ConfigurableHTTPProxy.command = dying + (
    json.loads(proxy) if proxy else [str(ROOT / "node_modules" / ".bin" / "configurable-http-proxy")]
)
# Whoever stops the hub stops the class: nothing is left behind, and what was handed in is in the gradebook.
c.JupyterHub.cleanup_servers = True
c.JupyterHub.cleanup_proxy = True

c.JupyterHub.authenticator_class = ClassAuthenticator
c.Authenticator.allow_all = True  # whom the authenticator knows; who has left is refused in the hook
c.Authenticator.username_pattern = NAME.pattern
c.Authenticator.post_auth_hook = authenticator.admit
c.Authenticator.manage_groups = True
c.Authenticator.auth_refresh_age = 60
c.JupyterHub.cookie_max_age_days = 7
c.JupyterHub.concurrent_spawn_limit = 8

c.JupyterHub.spawner_class = ClassSpawner
c.ClassSpawner.isolated = os.environ.get("CLASSROOM_WITHOUT_ISOLATION") != "1"
c.Spawner.cmd = [sys.executable, "-P", "-m", "classroom.starter"]
c.Spawner.args = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120
c.Spawner.env_keep = ["LANG", "LC_ALL", "TZ", "VIRTUAL_ENV"]

service_port = free_port()
c.Spawner.environment = {
    "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": str(ROOT),
    # Not through the proxy: the service is on this machine, and so is the server.
    "AUTOGRADER_SERVICE": f"http://127.0.0.1:{service_port}/services/{SERVICE}/",
    # The processors are shared by the class.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
# What the token in a person's server can do: as that person, reach their own server and the grading service.
c.Spawner.server_token_scopes = [
    "users:activity!user",
    "access:servers!server",
    f"access:services!service={SERVICE}",
]

shared = {
    # The operator's settings of the autograder; what is the hub's own follows, and stands.
    **{name: value for name, value in os.environ.items() if name.startswith("AUTOGRADER_")},
    "PATH": f"{bin_folder}:{os.environ.get('PATH', '')}",
    "PYTHONPATH": str(ROOT),
    "AUTOGRADER_HOME": str(place.gradebook_home),
    "AUTOGRADER_RUNTIME_DIR": os.environ.get("AUTOGRADER_RUNTIME_DIR") or str(place.runtime),
    "CLASSROOM_STATE": str(place.state),
    "CLASSROOM_GRADEBOOK": place.gradebook,
}
c.JupyterHub.services = [
    {
        "name": SERVICE,
        "url": f"http://127.0.0.1:{service_port}",
        "command": [*dying, sys.executable, "-P", "-m", "classroom.service"],
        "environment": shared,
        "oauth_no_confirm": True,
        "display": True,
    },
    {
        "name": "worker",
        # It runs what learners wrote, and needs nothing of the hub: its token stays outside.
        "command": [
            *dying, "env", "-u", "JUPYTERHUB_API_TOKEN", sys.executable, "-P", "-m", "autograder", "worker",
            "--gradebook", place.gradebook, "--slots", os.environ.get("CLASSROOM_WORKERS", "1"),
        ],
        "environment": shared,
        "display": False,
    },
]  # fmt: skip
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", f"access:services!service={SERVICE}"]},
    {
        "name": "instructor",
        "description": "Sees who is in the class and whose server runs, and may start and stop servers",
        "groups": [authenticator.INSTRUCTORS],
        "scopes": ["admin-ui", "list:users", "read:users", "servers", f"access:services!service={SERVICE}"],
    },
]

if settings := os.environ.get("CLASSROOM_SETTINGS"):
    load_subconfig(settings)  # type: ignore[name-defined]  # noqa: F821  (JupyterHub puts it there)

# The pages of the class make passwords only where they are what people log in by.
chosen = c.JupyterHub.authenticator_class
of_ours = isinstance(chosen, type) and issubclass(chosen, ClassAuthenticator)
shared["CLASSROOM_PASSWORDS"] = "1" if of_ours else ""
