"""Who calls, and what a key opens."""

from __future__ import annotations

from typing import get_args

import pytest

from hermes.admission.auth import Authenticator, bearer_of, is_admin_key, require_role, with_user
from hermes.admission.keys import KeyDigest, new_key
from hermes.directory import ApiKey, Directory, Scope
from hermes.errors import DatabaseUnavailable, Forbidden, HermesError, Unauthorized
from hermes.policy import AuthPolicy
from hermes.types import Principal, RateLimits, Secret

NOW = 1_800_000_000.0
ADMIN = "the-admin-key"
OPEN = AuthPolicy(admin_key=Secret(ADMIN))
CLOSED = AuthPolicy(admin_key=Secret(ADMIN), require_client_key=True)
DIGEST = KeyDigest(b"a secret of the server")
LIMITS = RateLimits(concurrent=1)

ROUTER, GATEWAY, OPERATOR, EXPIRED, ENDING, UNKNOWN = (new_key() for _ in range(6))
KEYS = {
    ROUTER: ApiKey("k_router", "r", frozenset({"router"})),
    GATEWAY: ApiKey("k_gateway", "g", frozenset({"gateway"}), frozenset({"chat"}), None, LIMITS),
    OPERATOR: ApiKey("k_operator", "o", frozenset({"admin"})),
    EXPIRED: ApiKey("k_expired", "e", frozenset(get_args(Scope)), expires_at=NOW),
    ENDING: ApiKey("k_ending", "n", frozenset(get_args(Scope)), expires_at=NOW + 0.001),
}
DIRECTORY = Directory(keys={DIGEST(key): value for key, value in KEYS.items()})
NAMES = {
    "": "nothing",
    ADMIN: "the admin key",
    ROUTER: "router",
    GATEWAY: "gateway",
    OPERATOR: "admin scope",
    EXPIRED: "expired",
    ENDING: "ending",
    UNKNOWN: "unknown",
    "dummy": "a dummy",
    "clé-ключ": "not ASCII",
    "\ud800": "no text",
}


@pytest.fixture
def auth() -> Authenticator:
    return Authenticator(DIGEST, clock=lambda: NOW)


def outcome(auth: Authenticator, bearer: str, policy: AuthPolicy, scope: Scope | None) -> str:
    """Who it is, or the refusal."""
    try:
        principal = auth.authenticate(bearer, policy, DIRECTORY, scope=scope)
    except HermesError as refused:
        return f"{refused.status} {refused.code}"
    return "admin" if principal.is_admin else principal.key_id or "anonymous"


NO_KEY = "401 invalid_api_key"
WRONG = "403 insufficient_scope"


@pytest.mark.parametrize("bearer", NAMES, ids=NAMES.values())
@pytest.mark.parametrize(
    ("policy", "scope", "wanted"),
    [
        pytest.param(
            OPEN,
            "router",
            {ADMIN: "admin", ROUTER: "k_router", ENDING: "k_ending", GATEWAY: WRONG, OPERATOR: WRONG},
            id="router, open",
        ),
        pytest.param(
            CLOSED,
            "router",
            {ADMIN: "admin", ROUTER: "k_router", ENDING: "k_ending", GATEWAY: WRONG, OPERATOR: WRONG, None: NO_KEY},
            id="router, keys required",
        ),
        pytest.param(
            OPEN,
            "gateway",
            {ADMIN: "admin", GATEWAY: "k_gateway", ENDING: "k_ending", ROUTER: WRONG, OPERATOR: WRONG, None: NO_KEY},
            id="gateway",
        ),
        pytest.param(
            CLOSED,
            None,
            {
                ADMIN: "admin",
                GATEWAY: "k_gateway",
                ENDING: "k_ending",
                ROUTER: "k_router",
                OPERATOR: "k_operator",
                None: NO_KEY,
            },
            id="any key",
        ),
    ],
)
def test_what_a_key_opens(
    auth: Authenticator, bearer: str, policy: AuthPolicy, scope: Scope | None, wanted: dict[str | None, str]
) -> None:
    assert outcome(auth, bearer, policy, scope) == wanted.get(bearer, wanted.get(None, "anonymous"))


def test_a_principal_has_what_the_later_stages_ask(auth: Authenticator) -> None:
    principal = auth.authenticate(GATEWAY, OPEN, DIRECTORY, scope="gateway")

    assert principal == Principal(
        key_id="k_gateway",
        identity="k_gateway",
        scopes=frozenset({"gateway"}),
        roles=frozenset({"chat"}),
        limits=LIMITS,
    )


def test_anonymous_callers_with_different_words_are_told_apart(auth: Authenticator) -> None:
    found = [auth.authenticate(word, OPEN, DIRECTORY, scope="router").identity for word in ("a", "b", UNKNOWN, "")]

    assert len(set(found)) == 4
    assert found[-1] == ""
    assert all(word not in identity for word in (UNKNOWN, "a-key") for identity in found)


def test_a_revocation_counts_with_the_next_request(auth: Authenticator) -> None:
    """Nothing remembers that a key was good."""
    assert outcome(auth, GATEWAY, OPEN, "gateway") == "k_gateway"

    with pytest.raises(Unauthorized, match="not known, or it was revoked or has expired"):
        auth.authenticate(GATEWAY, OPEN, Directory(), scope="gateway")


def test_a_key_that_another_worker_has_just_made_counts_at_once() -> None:
    auth = Authenticator(DIGEST, clock=lambda: NOW, look_again=lambda: DIRECTORY)

    assert auth.authenticate(GATEWAY, OPEN, Directory(), scope="gateway").key_id == "k_gateway"


def test_a_flood_of_unknown_keys_does_not_reach_the_database() -> None:
    looks: list[int] = []
    auth = Authenticator(DIGEST, clock=lambda: NOW, look_again=lambda: looks.append(1))

    for _ in range(500):
        with pytest.raises(Unauthorized):
            auth.authenticate(UNKNOWN, OPEN, Directory(), scope="gateway")

    assert len(looks) == 20


def test_an_unknown_key_is_not_called_wrong_while_nobody_can_tell() -> None:
    looks: list[int] = []

    def look_again() -> Directory:
        looks.append(1)
        raise DatabaseUnavailable("postgres at 10.0.0.7 is away")

    auth = Authenticator(DIGEST, clock=lambda: NOW, look_again=look_again)

    for _ in range(50):
        with pytest.raises(DatabaseUnavailable, match="not known yet") as away:
            auth.authenticate(UNKNOWN, OPEN, DIRECTORY, scope="gateway")
    assert (away.value.status, away.value.retry_after_s, len(looks)) == (503, 2, 20)
    with pytest.raises(DatabaseUnavailable):
        auth.authenticate(UNKNOWN, CLOSED, DIRECTORY, scope="router")
    with pytest.raises(DatabaseUnavailable):
        auth.require_admin(UNKNOWN, OPEN, DIRECTORY)
    assert auth.authenticate(UNKNOWN, OPEN, DIRECTORY, scope="router").key_id is None, "where none is needed"
    assert auth.authenticate(GATEWAY, OPEN, DIRECTORY, scope="gateway").key_id == "k_gateway"


def test_a_refusal_says_what_to_do_and_never_the_key(auth: Authenticator) -> None:
    with pytest.raises(Unauthorized, match="send it as `Authorization: Bearer <key>`"):
        auth.authenticate("", CLOSED, DIRECTORY, scope="router")
    with pytest.raises(
        Forbidden, match="needs an API key with the scope gateway; the one that was sent has router"
    ) as no:
        auth.authenticate(ROUTER, OPEN, DIRECTORY, scope="gateway")
    assert ROUTER not in no.value.message


# -- operators --------------------------------------------------------------------------------------------


def operator(auth: Authenticator, bearer: str, policy: AuthPolicy) -> str:
    try:
        return auth.require_admin(bearer, policy, DIRECTORY)
    except HermesError as refused:
        return f"{refused.status} {refused.code}"


@pytest.mark.parametrize("bearer", NAMES, ids=NAMES.values())
def test_operators_have_the_admin_key_or_the_admin_scope(auth: Authenticator, bearer: str) -> None:
    wanted = {ADMIN: "admin", OPERATOR: "key:k_operator", ENDING: "key:k_ending", ROUTER: WRONG, GATEWAY: WRONG}

    assert operator(auth, bearer, OPEN) == wanted.get(bearer, NO_KEY)


@pytest.mark.parametrize("bearer", NAMES, ids=NAMES.values())
def test_without_an_admin_key_nobody_is_an_operator(auth: Authenticator, bearer: str) -> None:
    """Not even a key with the admin scope: unset means closed."""
    assert operator(auth, bearer, AuthPolicy()) == NO_KEY


def test_the_admin_key_is_compared_whatever_is_sent() -> None:
    assert is_admin_key(ADMIN, OPEN)
    assert not any(is_admin_key(word, OPEN) for word in NAMES if word != ADMIN)
    assert not is_admin_key("", AuthPolicy(admin_key=Secret("")))


# -- the last use -----------------------------------------------------------------------------------------


def test_the_last_use_of_each_known_key_is_kept_until_it_is_taken() -> None:
    now = [NOW]
    auth = Authenticator(DIGEST, clock=lambda: now[0])
    for bearer in (GATEWAY, ROUTER, UNKNOWN, EXPIRED, ADMIN):
        outcome(auth, bearer, OPEN, None)
    now[0] += 5
    outcome(auth, ROUTER, OPEN, "router")

    assert auth.take_last_used() == {"k_gateway": NOW, "k_router": NOW + 5}
    assert auth.take_last_used() == {}


# -- the header, the role, the user -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER   abc  ", "abc"),
        ("Bearer\tabc", "abc"),
        (" Bearer abc", "abc"),
        ("Bearer a b", "a b"),
        ("Bearer", ""),
        ("Bearer ", ""),
        ("Bearerabc", ""),
        ("Basic abc", ""),
        ("abc", ""),
        ("", ""),
    ],
)
def test_the_scheme_ignores_case_and_any_blanks_may_follow(header: str, token: str) -> None:
    assert bearer_of(header) == token


def test_a_key_may_be_bound_to_roles() -> None:
    require_role(Principal(), "reasoning")
    require_role(Principal(roles=frozenset({"chat"})), "chat")

    with pytest.raises(Forbidden, match="may not ask for the role reasoning, only for chat") as refused:
        require_role(Principal(roles=frozenset({"chat"})), "reasoning")

    assert (refused.value.status, refused.value.param) == (403, "role")


@pytest.mark.parametrize(
    ("body", "header", "user"),
    [
        pytest.param({"metadata": {"user_id": "m"}, "user": "u"}, "h", "m", id="metadata first"),
        pytest.param({"metadata": {"user_id": " "}, "user": "u"}, "h", "u", id="then user"),
        pytest.param({"metadata": "m", "user": None}, " h ", "h", id="then the header"),
        pytest.param({"user": 17}, "", "17", id="a number"),
        pytest.param({"user": True}, "", None, id="a flag is nobody"),
        pytest.param({"user": ["a"]}, "", None, id="a list is nobody"),
        pytest.param({"user": "u" * 1000}, "", "u" * 256, id="cut"),
    ],
)
def test_the_user_is_the_first_that_is_named(body: dict[str, object], header: str, user: str | None) -> None:
    assert with_user(Principal(key_id="k"), body, header) == Principal(key_id="k", user_id=user)
