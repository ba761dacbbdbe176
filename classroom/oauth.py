"""Log-in through an OAuth 2.0 identity provider (RFC 6749, with PKCE of RFC 7636): a university's, GitLab's, ...

In a file given by ``make hub ARGS="--settings FILE"``::

    from classroom.oauth import OAuthAuthenticator

    c.JupyterHub.authenticator_class = OAuthAuthenticator
    c.OAuthAuthenticator.authorize_url = "https://login.example.edu/oauth2/authorize"
    c.OAuthAuthenticator.token_url = "https://login.example.edu/oauth2/token"
    c.OAuthAuthenticator.userinfo_url = "https://login.example.edu/oauth2/userinfo"
    c.OAuthAuthenticator.client_id = "..."
    c.OAuthAuthenticator.client_secret = open("/etc/classroom/oauth-secret").read().strip()
    c.OAuthAuthenticator.username_claim = "preferred_username"

Who is let in: those the gradebook knows, and with ``enrol = True`` whoever the provider knows.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any
from urllib.parse import urlencode

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import BaseHandler
from jupyterhub.utils import url_path_join
from tornado import web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from traitlets import Bool, List, Unicode

from classroom.authenticator import known_or_new, still_in

STATE_COOKIE = "classroom-oauth"
STATE_MINUTES = 10


class Start(BaseHandler):
    """Send the browser to the provider, and remember in it what must come back."""

    def get(self) -> None:
        known = self.authenticator
        verifier = secrets.token_urlsafe(48)
        # Only a path of this hub: a whole address, or //host, would make us a way to elsewhere.
        then = self.get_argument("next", "")
        kept = {"state": secrets.token_urlsafe(24), "verifier": verifier, "next": then}
        self.set_secure_cookie(
            STATE_COOKIE,
            json.dumps(kept),
            expires_days=STATE_MINUTES / 1440,
            path=self.hub.base_url,
            httponly=True,
            samesite="Lax",
            secure=self.request.protocol == "https",
        )
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": known.client_id,
            "redirect_uri": known.callback(self),
            "scope": " ".join(known.scope),
            "state": kept["state"],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        self.redirect(f"{known.authorize_url}?{urlencode(query)}")


class Callback(BaseHandler):
    """The browser is back from the provider, with a code."""

    async def get(self) -> None:
        found = self.get_secure_cookie(STATE_COOKIE, max_age_days=STATE_MINUTES / 1440)
        self.clear_cookie(STATE_COOKIE, path=self.hub.base_url)
        kept = json.loads(found) if found else None
        if kept is None or not hmac.compare_digest(kept["state"], self.get_argument("state", "")):
            raise web.HTTPError(
                400, "This log-in was not begun here, or took too long. Begin again at the log-in page."
            )
        if fault := self.get_argument("error", ""):
            raise web.HTTPError(403, f"The identity provider refused: {fault[:100]!r}.".replace("%", "%%"))
        user = await self.login_user({"code": self.get_argument("code", ""), "verifier": kept["verifier"]})
        if user is None:
            raise web.HTTPError(403, self.authenticator.custom_403_message)
        self.redirect(
            self.get_next_url(user, default=kept["next"] or None) if not kept["next"] else self.safe(kept["next"])
        )

    def safe(self, path: str) -> str:
        """The page that was asked for, if it is one of this server."""
        return self._validate_next_url(path) or self.hub.base_url


class OAuthAuthenticator(Authenticator):
    """People log in with an OAuth 2.0 provider."""

    login_service = Unicode("your university", config=True, help="What the button calls the provider.")
    authorize_url = Unicode(config=True, help="Where the provider asks people who they are.")
    token_url = Unicode(config=True, help="Where a code is exchanged for a token.")
    userinfo_url = Unicode(config=True, help="Where a token is exchanged for what is known of the person.")
    client_id = Unicode(config=True)
    client_secret = Unicode(config=True)
    scope = List(Unicode(), ["openid", "profile", "email"], config=True)
    username_claim = Unicode("preferred_username", config=True, help="What of it is the login name.")
    callback_url = Unicode("", config=True, help="Our own address for the provider, behind a proxy that changes it.")
    enrol = Bool(False, config=True, help="Add to the class whoever the provider knows.")
    custom_403_message = Unicode("You are not in this class. Ask your instructor to add you.", config=True)
    auto_login = True

    def login_url(self, base_url: str) -> str:
        return url_path_join(base_url, "oauth_login")

    def get_handlers(self, app: Any) -> list[tuple[str, type[BaseHandler]]]:
        return [("/oauth_login", Start), ("/oauth_callback", Callback)]

    def callback(self, handler: BaseHandler) -> str:
        own = f"{handler.request.protocol}://{handler.request.host}"
        return self.callback_url or own + url_path_join(handler.hub.base_url, "oauth_callback")

    async def authenticate(self, handler: BaseHandler, data: dict[str, str]) -> dict[str, Any] | None:
        form = {
            "grant_type": "authorization_code",
            "code": data["code"],
            "redirect_uri": self.callback(handler),
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "code_verifier": data["verifier"],
        }
        answered = await self._ask(self.token_url, method="POST", body=urlencode(form))
        token = answered.get("access_token")
        if not isinstance(token, str):
            raise web.HTTPError(502, "The identity provider gave no token.")
        person = await self._ask(self.userinfo_url, headers={"Authorization": f"Bearer {token}"})
        name = person.get(self.username_claim)
        if not isinstance(name, str) or not name:
            raise web.HTTPError(502, f"The identity provider told no {self.username_claim}.")
        return await known_or_new(
            self.normalize_username(name), enrol=self.enrol, shown_as=str(person.get("name") or "")
        )

    async def _ask(self, url: str, **options: Any) -> dict[str, Any]:
        headers = {"Accept": "application/json"} | options.pop("headers", {})
        try:
            reply = await AsyncHTTPClient().fetch(
                url, headers=headers, follow_redirects=False, request_timeout=20, **options
            )
            found = json.loads(reply.body)
        except (HTTPClientError, OSError, ValueError) as error:
            self.log.warning("%s: %s", url, error)
            raise web.HTTPError(502, "The identity provider did not confirm this log-in. Begin again.") from None
        if not isinstance(found, dict):
            raise web.HTTPError(502, "The identity provider's answer is no JSON object.")
        return found

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> bool | dict[str, Any]:
        return await still_in(user.name)
