"""A small identity provider: OAuth 2.0 with PKCE, and a learning platform with LTI 1.3, on one port of this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
CLIENT, SECRET = "the-hub", "a secret of two"


class Provider:
    """Logs in whoever `person` is at the moment."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {}
        self.codes: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.get(self)

            def do_POST(self) -> None:
                provider.post(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing: the test run has its own output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @staticmethod
    def answer(handler: Any, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def get(self, handler: Any) -> None:
        path, _, query = handler.path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        if path == "/authorize":
            code = secrets.token_urlsafe(8)
            self.codes[code] = (asked["redirect_uri"], asked["code_challenge"], dict(self.person))
            back = urllib.parse.urlencode({"code": code, "state": asked["state"]})
            handler.send_response(302)
            handler.send_header("Location", f"{asked['redirect_uri']}?{back}")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        elif path == "/userinfo":
            token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
            found = self.tokens.get(token)
            self.answer(handler, found or {"error": "invalid_token"}, 200 if found else 401)
        elif path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            self.answer(handler, {"keys": [public | {"kid": "one", "use": "sig", "alg": "RS256"}]})
        elif path == "/lti":  # a browser would send the form; the test reads what was asked
            self.answer(handler, asked)
        else:
            self.answer(handler, {}, 404)

    def post(self, handler: Any) -> None:
        form = dict(urllib.parse.parse_qsl(handler.rfile.read(int(handler.headers["Content-Length"])).decode()))
        redirect, challenge, person = self.codes.pop(form.get("code", ""), ("", "", {}))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        right = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        if (
            not right
            or form["redirect_uri"] != redirect
            or (form["client_id"], form["client_secret"]) != (CLIENT, SECRET)
        ):
            self.answer(handler, {"error": "invalid_grant"}, 400)
            return
        token = secrets.token_urlsafe(8)
        self.tokens[token] = person
        self.answer(handler, {"access_token": token, "token_type": "Bearer"})

    def launch(self, nonce: str, key: Any = None, **changes: Any) -> str:
        """A signed launch of the person of the moment; with changes, one that should not be taken."""
        moment = int(time.time())
        claims = {
            "iss": self.base,
            "aud": CLIENT,
            "iat": moment,
            "exp": moment + 300,
            "nonce": nonce,
            f"{CLAIM}version": "1.3.0",
            f"{CLAIM}message_type": "LtiResourceLinkRequest",
            f"{CLAIM}deployment_id": "1",
            f"{CLAIM}roles": [],
            **self.person,
        }
        algorithm = changes.pop("algorithm", "RS256")
        claims |= {name.replace("claim_", CLAIM): value for name, value in changes.items()}
        return jwt.encode(claims, key or self.key, algorithm=algorithm, headers={"kid": "one"})
