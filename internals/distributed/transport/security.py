"""Who may take part in a job: whoever knows its secret.

Between machines connections are encrypted and authenticated by ZeroMQ's CURVE (CurveZMQ, RFC 26), with one pair of keys
for the job, which is made from the secret: without it nobody can finish a handshake, in either role. On one machine the
bytes stay in the kernel, and a keyed hash in each hello shows that the secret is known.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import zmq

SECRET = "JOB_SECRET"
"""The variable of the environment that holds the secret where none is passed."""


def secret_bytes(secret: str | bytes | None) -> bytes:
    """The secret that was passed, or the environment's; empty where there is none."""
    if secret is None:
        secret = os.environ.get(SECRET, "")
    return secret.encode() if isinstance(secret, str) else bytes(secret)


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can be at `host`; a name is looked up."""
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry).split("%")[0]).is_loopback for entry in found)


def proof(secret: bytes, *parts: str) -> str:
    """A hash that only who knows the secret can make."""
    return hmac.new(secret, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def proves(given: str, secret: bytes, *parts: str) -> bool:
    return hmac.compare_digest(given.encode(), proof(secret, *parts).encode())


def protect(link: zmq.Socket[Any], secret: bytes, *, server: bool) -> None:
    """Let a socket speak CURVE with the keys of the job, and with nobody who has others.

    Raises
    ------
    ValueError
        There is no secret.
    RuntimeError
        This libzmq was built without CURVE.
    """
    import zmq
    from zmq.utils import z85

    if not secret:
        raise ValueError(
            "an endpoint that other machines can reach needs a secret, the same on all: pass secret=, or set "
            f"{SECRET} in the environment. On one machine use 127.0.0.1"
        )
    if not zmq.has("curve"):
        raise RuntimeError("this libzmq was built without CURVE: install pyzmq from a wheel (pip install pyzmq)")
    private = z85.encode(hashlib.sha256(b"internals.distributed\0" + secret).digest())
    public = zmq.curve_public(private)
    link.curve_secretkey, link.curve_publickey = private, public
    if server:
        link.curve_server = True
    else:
        link.curve_serverkey = public
