"""Marks for a learning platform: the score of LTI 1.3's Assignment and Grade Services, and how it is sent.

1EdTech, *Learning Tools Interoperability Assignment and Grade Services Specification 2.0*, section 3.4, and the
*1EdTech Security Framework 1.0*, section 4.1 (a token for an assertion that the tool signs).
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.gradebook.decisions import assignments
from autograder.gradebook.models import now
from autograder.gradebook.roster import people
from autograder.gradebook.scores import Mark, sheet
from autograder.gradebook.store import Gradebook

SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope/score"
SCORE_TYPE = "application/vnd.ims.lis.v1.score+json"
SECONDS = 30.0
_MOST = 1 << 20


class PlatformError(RuntimeError):
    """The learning platform could not be reached or did not take a score; in one line."""


def score(mark: Mark, user: str, *, at: datetime) -> dict[str, Any]:
    """The score object for one learner and line item.

    `user` is the learner's ``sub`` on the platform. A score that is not there yet is left out, which clears the
    platform's; `at` lets the platform ignore one that arrives after a newer one.
    """
    found: dict[str, Any] = {
        "userId": user,
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "activityProgress": "Completed" if mark.submission is not None or mark.points is not None else "Initialized",
        "gradingProgress": _progress(mark),
    }
    if mark.points is not None and mark.max_points:
        found |= {"scoreGiven": round(mark.points, 6), "scoreMaximum": mark.max_points}
    return found


def _progress(mark: Mark) -> str:
    if mark.by_hand:
        return "PendingManual"
    if mark.waiting:
        return "Pending"
    return "NotReady" if mark.points is None else "FullyGraded"


@dataclass(frozen=True)
class Outgoing:
    """The scores of a lab, ready to be sent."""

    lab: str
    line_item: str
    scores: list[dict[str, Any]]
    without_id: list[str]
    """Learners with a mark whose id on the platform is not known."""


def outgoing(book: Gradebook, lab: str) -> Outgoing:
    """Every learner's score for the lab."""
    terms = assignments(book).get(lab)
    ids = {one.name: one.lti_id for one in people(book)}
    at, scores, without = now(), [], []
    for (name, _), mark in sorted(sheet(book, lab=lab).marks.items()):
        user = ids.get(name)
        if user is None:
            without.append(name)
        else:
            scores.append(score(mark, user, at=at))
    return Outgoing(lab, terms.line_item if terms else "", scores, without)


@dataclass(frozen=True)
class Platform:
    """A learning platform that this tool is registered with."""

    token_url: str
    client_id: str
    key_id: str
    private_key: str = field(repr=False)
    """RSA, in PEM."""
    audience: str = ""
    """What the platform calls itself in assertions; the token's address, if not given."""

    @classmethod
    def read(cls, path: Path) -> Platform:
        """From a JSON file: ``token_url``, ``client_id``, ``key_id``, ``private_key_file`` and maybe ``audience``."""
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            key = (path.parent / told.pop("private_key_file")).read_text(encoding="ascii")
            return cls(private_key=key, **told)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PlatformError(
                f"{path}: not a platform's settings ({type(error).__name__}: {error}). "
                "It needs token_url, client_id, key_id and private_key_file, as JSON."
            ) from None

    def token(self) -> str:
        """An access token for sending scores, for an assertion signed with the private key (RS256)."""
        import jwt

        seconds = int(time.time())
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self.audience or self.token_url,
            "iat": seconds,
            "exp": seconds + 300,
            "jti": uuid.uuid4().hex,
        }
        try:
            assertion = jwt.encode(claims, self.private_key, algorithm="RS256", headers={"kid": self.key_id})
        except (ValueError, TypeError, jwt.PyJWTError):
            raise PlatformError(
                "the private key is not an RSA key in PEM; give the one the tool is registered with."
            ) from None
        form = {
            "grant_type": "client_credentials",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion,
            "scope": SCOPE,
        }
        body = urllib.parse.urlencode(form).encode("ascii")
        answer = _post(self.token_url, body, {"Content-Type": "application/x-www-form-urlencoded"})
        try:
            return str(json.loads(answer)["access_token"])
        except (ValueError, KeyError, TypeError):
            raise PlatformError(f"{self.token_url}: it answered without an access_token.") from None

    def send(self, going: Outgoing) -> int:
        """Send every score; returns how many. Sending them again changes nothing.

        Raises
        ------
        PlatformError
            The lab has no line item, or the platform refused the token or a score; names whose.
        """
        if not going.line_item:
            raise PlatformError(f"{going.lab}: no line item; give the address of its column on the platform.")
        token = self.token()
        for one in going.scores:
            headers = {"Content-Type": SCORE_TYPE, "Authorization": f"Bearer {token}"}
            try:
                _post(scores_url(going.line_item), json.dumps(one).encode(), headers)
            except PlatformError as error:
                raise PlatformError(f"{going.lab}: the score of user {one['userId']} was not taken: {error}") from None
        return len(going.scores)


def scores_url(line_item: str) -> str:
    """Where a line item's scores go: ``/scores`` after its path, before its query."""
    parts = urllib.parse.urlsplit(line_item)
    return urllib.parse.urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/scores"))


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nowhere: a token must not be carried to another host."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _post(url: str, body: bytes, headers: dict[str, str]) -> bytes:
    parts = urllib.parse.urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not local:
        raise PlatformError(f"{url}: not an https address; a token would go over the network in the clear.")
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=SECONDS) as answer:
            return bytes(answer.read(_MOST))
    except urllib.error.HTTPError as error:
        raise PlatformError(f"{url}: it answered {error.code} {error.reason}.") from None
    except (OSError, ValueError) as error:
        raise PlatformError(f"{url}: it could not be reached: {getattr(error, 'reason', error)}.") from None
