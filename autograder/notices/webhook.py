"""A notice as a signed request to one server.

The server's name is looked up once and the request goes to the address that was found and looked at, so that a name
cannot lead to this machine or its network; and it is followed nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import urllib.parse

from autograder.notices.outbox import Message, NotSent
from autograder.notices.settings import Webhook

SECONDS = 20.0
TRANSLATED = [ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48")]
"""IPv6 addresses that a gateway makes IPv4 ones of, private ones too (RFC 6052, RFC 8215)."""
SIGNATURE = "X-Autograder-Signature"


def signature(secret: str, body: bytes) -> str:
    """What proves that a request is ours: HMAC-SHA256 of its body (RFC 2104)."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def may_reach(address: str) -> bool:
    """Whether an address is out in the world: neither this machine, nor its network, nor a cloud's own."""
    found = ipaddress.ip_address(address.split("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if (inner is not None and not inner.is_global) or any(found in network for network in TRANSLATED):
            return False
    return found.is_global and not found.is_multicast


def look_up(host: str, port: int, *, allow_private: bool) -> str:
    """The address to connect to.

    Raises
    ------
    NotSent
        There is no such host, or one of its addresses may not be reached.
    """
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise NotSent(f"webhook: {host}: {error}.") from None
    if not allow_private and (inside := [address for address in sorted(found) if not may_reach(address)]):
        raise NotSent(
            f"webhook: {host} is at {inside[0]}, inside this machine or its network. "
            "Set allow_private = true if that is meant."
        )
    return sorted(found, key=lambda address: (":" in address, address))[0]


def send(message: Message, settings: Webhook, secret: str) -> None:
    """POST a notice as JSON, signed.

    Raises
    ------
    NotSent
        The server may not be reached, could not be, or did not answer with 2xx.
    """
    parts = urllib.parse.urlsplit(settings.url)
    if parts.scheme != "https" and not (parts.scheme == "http" and settings.allow_private):
        raise NotSent(f"webhook: {settings.url}: not an https address.", final=True)
    if not parts.hostname or parts.username:
        raise NotSent(f"webhook: {settings.url}: give a host, and no user or password in the address.", final=True)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = look_up(parts.hostname, port, allow_private=settings.allow_private)
    body = json.dumps(message.content, ensure_ascii=False).encode()
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "autograder",
        "X-Autograder-Delivery": message.key,
        SIGNATURE: signature(secret, body),
    }
    connection = http.client.HTTPConnection(address, port, timeout=SECONDS)
    try:
        connection.connect()
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=parts.hostname)
        path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        connection.request("POST", path, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotSent(f"webhook: {parts.netloc}: {type(error).__name__}: {error}.") from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise NotSent(f"webhook: {parts.netloc} answered {status}.", final=status == 410)
