"""Log-in by OAuth 2.0 and by LTI 1.3, on a real hub, with an identity provider on this machine."""

from __future__ import annotations

import secrets
import urllib.parse
from collections.abc import Iterator
from typing import Any

import hub_process
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hub_process import Answer, Hub, Session
from provider import CLIENT, SECRET, Provider

from autograder.gradebook import open_gradebook, roster
from autograder.oracles import runtime

pytestmark = pytest.mark.slow

SETTINGS = """
from classroom.lti import LTIAuthenticator
from classroom.oauth import OAuthAuthenticator


class Both(OAuthAuthenticator, LTIAuthenticator):
    auto_login = False

    def get_handlers(self, app):
        return OAuthAuthenticator.get_handlers(self, app) + LTIAuthenticator.get_handlers(self, app)

    async def authenticate(self, handler, data):
        self.enrol = "id_token" in data
        kind = LTIAuthenticator if self.enrol else OAuthAuthenticator
        return await kind.authenticate(self, handler, data)


c.JupyterHub.authenticator_class = Both
c.Both.token_url = "{base}/token"
c.Both.userinfo_url = "{base}/userinfo"
c.Both.authorize_url = "{base}/{{}}"
c.Both.client_id = "{client}"
c.Both.client_secret = "{secret}"
c.Both.issuer = "{base}"
c.Both.jwks_url = "{base}/keys"
c.Both.deployments = ["1"]
c.OAuthAuthenticator.username_claim = "preferred_username"
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.close()


@pytest.fixture(scope="module")
def hub(provider: Provider, tmp_path_factory: pytest.TempPathFactory, can_run_hub: None) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("provided")
    settings = folder / "settings.py"
    text = SETTINGS.format(base=provider.base, client=CLIENT, secret=SECRET).replace("{}", "authorize")
    settings.write_text(text)
    shared = {"AUTOGRADER_RUNTIME_DIR": str(runtime.directory())}
    known = hub_process.small_class(folder / "state")
    running = hub_process.start(folder / "state", "--settings", str(settings), passwords=known, **shared)
    yield running
    running.stop()


def logged_in(session: Session, name: str) -> bool:
    answer = session.ask("/hub/home")
    return answer.url.endswith("/hub/home") and f'user: "{name}"' in answer.text


def oauth(hub: Hub, provider: Provider, name: str, then: str = "") -> tuple[Session, Answer]:
    provider.person = {"preferred_username": name, "name": name.title()}
    session = Session(hub.base)
    return session, session.ask(f"/hub/oauth_login?next={urllib.parse.quote(then or '/hub/home', safe='')}")


def test_oauth_lets_in_whom_the_gradebook_knows(hub: Hub, provider: Provider) -> None:
    session, answer = oauth(hub, provider, "ada")
    assert answer.status == 200
    assert answer.url.endswith("/hub/home")
    assert logged_in(session, "ada")


@pytest.mark.parametrize("name", ["mallory", "", "../ada", "ada/.."])
def test_oauth_refuses_whom_it_does_not_know(hub: Hub, provider: Provider, name: str) -> None:
    session, answer = oauth(hub, provider, name)
    assert answer.status in (403, 502)
    assert not session.ask("/hub/home").url.endswith("/hub/home")


@pytest.mark.parametrize("then", ["https://elsewhere.example/", "//elsewhere.example/", "/\\elsewhere.example"])
def test_oauth_sends_nobody_elsewhere(hub: Hub, provider: Provider, then: str) -> None:
    provider.person = {"preferred_username": "ada"}
    session = Session(hub.base)
    answer = session.ask(f"/hub/oauth_login?next={urllib.parse.quote(then, safe='')}")
    assert answer.url.startswith(hub.base)


def test_an_oauth_answer_that_was_not_asked_for_is_refused(hub: Hub, provider: Provider) -> None:
    session = Session(hub.base)
    assert session.ask("/hub/oauth_callback?code=made&state=up").status == 400
    session.watch_redirect("/hub/oauth_login", lambda address: None)
    assert session.ask("/hub/oauth_callback?code=made&state=up").status == 400
    assert not logged_in(session, "ada")


def begin(hub: Hub, provider: Provider) -> tuple[Session, dict[str, str]]:
    """A log-in that the platform begins; what we ask it."""
    session = Session(hub.base)
    query = urllib.parse.urlencode({"iss": provider.base, "login_hint": "7", "client_id": CLIENT})
    asked: dict[str, str] = {}

    def stop(address: str) -> None:
        asked.update(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))

    session.watch_redirect(f"/hub/lti/login?{query}", stop)
    return session, asked


def launch(session: Session, token: str, state: str) -> Answer:
    return session.ask("/hub/lti/launch", urllib.parse.urlencode({"id_token": token, "state": state}).encode())


def person(hub: Hub, name: str) -> Any:
    with open_gradebook(hub.state / "gradebook" / "gradebook.sqlite") as book:
        return roster.person(book, name)


def test_lti_brings_in_learners_and_instructors(hub: Hub, provider: Provider) -> None:
    for name, roles in (("kay", []), ("prof", ["http://purl.imsglobal.org/vocab/lis/v2/membership#Instructor"])):
        subject = secrets.token_hex(8)
        provider.person = {"sub": subject, "preferred_username": name, "name": name.title()}
        session, asked = begin(hub, provider)
        assert asked["response_mode"] == "form_post"
        launch(session, provider.launch(asked["nonce"], claim_roles=roles), asked["state"])
        assert logged_in(session, name)
        found = person(hub, name)
        assert found.lti_id == subject
        assert found.roles == (("instructor",) if roles else ("learner",))
    # Another of the platform's people who has the same name there is not that person here.
    provider.person = {"sub": secrets.token_hex(8), "preferred_username": "kay"}
    session, asked = begin(hub, provider)
    assert launch(session, provider.launch(asked["nonce"]), asked["state"]).status == 403


WRONG: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "another tool"},
    "another platform": {"iss": "https://elsewhere.example"},
    "too old": {"exp": 1_700_000_000},
    "another nonce": {"nonce": "made up"},
    "another deployment": {"claim_deployment_id": "2"},
    "another message": {"claim_message_type": "LtiDeepLinkingRequest"},
    "an older version": {"claim_version": "1.1"},
    "no name": {"preferred_username": ""},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_lti_launch_that_is_not_for_us_is_refused(hub: Hub, provider: Provider, wrong: str) -> None:
    provider.person = {"sub": "mallory", "preferred_username": "mallory"}
    session, asked = begin(hub, provider)
    answer = launch(session, provider.launch(**{"nonce": asked["nonce"]} | WRONG[wrong]), asked["state"])
    assert answer.status in (400, 403)
    assert person(hub, "mallory") is None


def test_a_forged_or_repeated_lti_launch_is_refused(hub: Hub, provider: Provider) -> None:
    provider.person = {"sub": "mallory", "preferred_username": "mallory"}
    session, asked = begin(hub, provider)
    another = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert launch(session, provider.launch(asked["nonce"], key=another), asked["state"]).status == 403
    session, asked = begin(hub, provider)
    unsigned = provider.launch(asked["nonce"], key="x" * 32, algorithm="HS256")
    assert launch(session, unsigned, asked["state"]).status == 403
    assert launch(Session(hub.base), provider.launch(asked["nonce"]), asked["state"]).status == 400
    assert person(hub, "mallory") is None
