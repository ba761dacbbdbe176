"""Log-in from a learning platform (LTI 1.3, IMS Global 2019: OpenID Connect third-party initiated log-in).

In a file given by ``make hub ARGS="--settings FILE"``::

    from classroom.lti import LTIAuthenticator

    c.JupyterHub.authenticator_class = LTIAuthenticator
    c.LTIAuthenticator.issuer = "https://moodle.example.edu"
    c.LTIAuthenticator.authorize_url = "https://moodle.example.edu/mod/lti/auth.php"
    c.LTIAuthenticator.jwks_url = "https://moodle.example.edu/mod/lti/certs.php"
    c.LTIAuthenticator.client_id = "..."
    c.LTIAuthenticator.deployments = ["1"]

On the platform, the tool's log-in address is ``https://HUB/hub/lti/login`` and its launch (redirect) address
``https://HUB/hub/lti/launch``; open it in a new window. The person's ``sub`` is kept in the gradebook, so that
``autograder export lti`` knows whose score is whose.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import time
from typing import Any
from urllib.parse import urlencode

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import BaseHandler
from jupyterhub.utils import url_path_join
from tornado import web
from tornado.httpclient import AsyncHTTPClient, HTTPClientError
from traitlets import Bool, List, Unicode

from classroom.authenticator import known_or_new, still_in

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
INSTRUCTOR = "http://purl.imsglobal.org/vocab/lis/v2/membership#Instructor"
STATE_COOKIE = "classroom-lti"
STATE_SECONDS = 600
KEYS_SECONDS = 3600.0


class Login(BaseHandler):
    """The platform says that somebody wants in; we ask it who."""

    def get(self) -> None:
        known = self.authenticator
        if (
            self.get_argument("iss", "") != known.issuer
            or self.get_argument("client_id", known.client_id) != known.client_id
        ):
            raise web.HTTPError(400, "This log-in is not from the learning platform that this hub knows.")
        kept = {"state": secrets.token_urlsafe(24), "nonce": secrets.token_urlsafe(24)}
        secure = self.request.protocol == "https"
        # The answer comes as a form that the platform's page sends: a Lax cookie would not be with it.
        self.set_secure_cookie(
            STATE_COOKIE,
            json.dumps(kept),
            expires_days=STATE_SECONDS / 86400,
            path=self.hub.base_url,
            httponly=True,
            samesite="None" if secure else "Lax",
            secure=secure,
        )
        query = {
            "scope": "openid",
            "response_type": "id_token",
            "response_mode": "form_post",
            "prompt": "none",
            "client_id": known.client_id,
            "redirect_uri": known.launch(self),
            "login_hint": self.get_argument("login_hint", ""),
            "lti_message_hint": self.get_argument("lti_message_hint", ""),
            **kept,
        }
        self.redirect(f"{known.authorize_url}?{urlencode(query)}")

    post = get

    def check_xsrf_cookie(self) -> None:
        """The platform's form can't have our token; this only sends the browser back to the platform."""


class Launch(BaseHandler):
    """The platform's signed word on who it is."""

    async def post(self) -> None:
        found = self.get_secure_cookie(STATE_COOKIE, max_age_days=STATE_SECONDS / 86400)
        self.clear_cookie(STATE_COOKIE, path=self.hub.base_url)
        kept = json.loads(found) if found else None
        if kept is None or not hmac.compare_digest(kept["state"], self.get_argument("state", "")):
            raise web.HTTPError(400, "This log-in was not begun here, or took too long. Open the hub from the course.")
        user = await self.login_user({"id_token": self.get_argument("id_token", ""), "nonce": kept["nonce"]})
        if user is None:
            raise web.HTTPError(403, self.authenticator.custom_403_message)
        self.redirect(self.get_next_url(user))

    def check_xsrf_cookie(self) -> None:
        """The state in the cookie, and the signature, are what this form is known by."""


class LTIAuthenticator(Authenticator):
    """People come from a course of a learning platform."""

    login_service = Unicode("your course", config=True)
    issuer = Unicode(config=True, help="The platform, as it calls itself.")
    authorize_url = Unicode(config=True, help="Where the platform is asked who somebody is.")
    jwks_url = Unicode(config=True, help="The platform's keys.")
    client_id = Unicode(config=True, help="What the platform calls this hub.")
    deployments = List(Unicode(), config=True, help="The deployments that are let in; all, if empty.")
    username_claim = Unicode("email", config=True, help="The login name; one that people can't change.")
    launch_url = Unicode("", config=True, help="Our own address for the platform, behind a proxy that changes it.")
    enrol = Bool(True, config=True, help="Add to the class whoever comes from the course.")
    instructors = Bool(True, config=True, help="New people who teach the course there are instructors here.")
    custom_403_message = Unicode("You are not in this class. Ask your instructor to add you.", config=True)

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._keys: tuple[float, list[Any]] = (0.0, [])
        self._used: dict[str, float] = {}

    def login_url(self, base_url: str) -> str:
        return url_path_join(base_url, "lti", "login")

    def get_handlers(self, app: Any) -> list[tuple[str, type[BaseHandler]]]:
        return [("/lti/login", Login), ("/lti/launch", Launch)]

    def launch(self, handler: BaseHandler) -> str:
        own = f"{handler.request.protocol}://{handler.request.host}"
        return self.launch_url or own + url_path_join(handler.hub.base_url, "lti", "launch")

    async def authenticate(self, handler: BaseHandler, data: dict[str, str]) -> dict[str, Any] | None:
        claims = await self.verified(data["id_token"])
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce, data["nonce"]) or not self._first_use(nonce):
            raise web.HTTPError(400, "This log-in was used before. Open the hub from the course again.")
        if claims.get(f"{CLAIM}version") != "1.3.0" or claims.get(f"{CLAIM}message_type") != "LtiResourceLinkRequest":
            raise web.HTTPError(400, "The learning platform sent no LTI 1.3 resource link.")
        if self.deployments and claims.get(f"{CLAIM}deployment_id") not in self.deployments:
            raise web.HTTPError(403, "This deployment of the tool is not one that the hub lets in.")
        name, subject = claims.get(self.username_claim), claims.get("sub")
        if not isinstance(name, str) or not name or not isinstance(subject, str) or not subject:
            raise web.HTTPError(403, f"The learning platform told no sub and {self.username_claim}.")
        teaches = self.instructors and INSTRUCTOR in (claims.get(f"{CLAIM}roles") or [])
        return await known_or_new(
            self.normalize_username(name),
            enrol=self.enrol,
            shown_as=str(claims.get("name") or ""),
            lti_id=subject,
            roles=["instructor"] if teaches else [],
        )

    def _first_use(self, nonce: str) -> bool:
        moment = time.monotonic()
        self._used = {one: until for one, until in self._used.items() if until > moment}
        if nonce in self._used:
            return False
        self._used[nonce] = moment + 2 * STATE_SECONDS
        return True

    async def verified(self, token: str) -> dict[str, Any]:
        """The claims of a token that the platform signed for us, in time.

        Raises
        ------
        tornado.web.HTTPError
            It did not, or its keys can't be had.
        """
        import jwt

        try:
            number = jwt.get_unverified_header(token).get("kid")
            key = await self._key(number)
            return await asyncio.to_thread(
                jwt.decode,
                token,
                key,
                algorithms=["RS256"],
                audience=self.client_id,
                issuer=self.issuer,
                leeway=60,
                options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
            )
        except jwt.PyJWTError as error:
            self.log.warning("LTI: %s", error)
            raise web.HTTPError(403, "The learning platform's signature is not right, or too old. Try again.") from None

    async def _key(self, number: Any) -> Any:
        """The platform's key of that number; asked for again where it is new, or the last time is long ago."""
        import jwt

        asked, keys = self._keys
        if time.monotonic() - asked > KEYS_SECONDS or not any(key.key_id == number for key in keys):
            if keys and time.monotonic() - asked < 10:  # a made-up number must not make us ask at will
                raise jwt.InvalidKeyError(f"no key {number!r}")
            try:
                reply = await AsyncHTTPClient().fetch(self.jwks_url, request_timeout=20, follow_redirects=False)
                keys = jwt.PyJWKSet.from_dict(json.loads(reply.body)).keys
            except (HTTPClientError, OSError, ValueError, jwt.PyJWTError) as error:
                self.log.warning("%s: %s", self.jwks_url, error)
                raise web.HTTPError(502, "The learning platform's keys can't be had. Try again in a minute.") from None
            self._keys = (time.monotonic(), keys)
        for key in keys:
            if key.key_id == number:
                return key.key
        raise jwt.InvalidKeyError(f"no key {number!r}")

    async def refresh_user(self, user: Any, handler: Any = None, **more: Any) -> bool | dict[str, Any]:
        return await still_in(user.name)
