"""Addresses: ``host:port``, and what a process says of the machine it is on."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def split(address: str) -> tuple[str, int]:
    """Host and port of ``"tcp://host:port"`` or ``"host:port"``; a host of IPv6 is in brackets.

    Raises
    ------
    ValueError
        It is none.
    """
    host, colon, port = address.removeprefix("tcp://").rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535 or "/" in host:
        raise ValueError(f"address {address!r}: expected host:port, as 127.0.0.1:29500 or [::1]:29500")
    return host, int(port)


def advertised(bound: str) -> str:
    """The address by which others reach who listens at `bound`: of every interface, the one that leads outside."""
    host, port = split(bound)
    if host in ("0.0.0.0", "[::]"):
        host = toward("192.0.2.1")
    return f"{host}:{port}"


def numeric(host: str) -> str:
    """The IP address of `host`, which may be one.

    Raises
    ------
    OSError
        Nobody knows it.
    """
    address = str(socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)[0][4][0])
    return f"[{address}]" if ":" in address else address


def toward(host: str) -> str:
    """This machine's own IP address on the way to `host`; nothing is sent."""
    family, kind, protocol, _, target = socket.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        try:
            probe.connect(target)
            own = probe.getsockname()[0]
        except OSError:
            own = socket.gethostbyname(socket.gethostname())
    return f"[{own}]" if ":" in own else own


def identity() -> str:
    """The same for processes that see one another's process ids: of one boot of one machine, in one container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}/{os.getuid()}"
    except OSError:
        return f"{socket.gethostname()}/{os.getuid()}"
