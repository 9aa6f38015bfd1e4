"""The client of commands: a `requests` session that trusts nothing of the environment.

Proxies and `.netrc` would replace the provider's key, so they are not looked at. Trusted are the authorities that the
hot path trusts: the system's and Mozilla's.
"""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter


def new_session() -> requests.Session:
    """A session for calls to providers."""
    session = requests.Session()
    session.trust_env = False
    session.mount("https://", _SystemTrust())
    return session


def address(base_url: str, route: str, *, keep_user: bool) -> str:
    """Where a route of an API is: the base URL as written, trailing slashes off, the route before a query.

    Args:
        keep_user: False where a key is sent: it goes before the URL's user, while the library has it reversed.

    >>> address("https://me:pw@host/v1/?api-version=7", "chat/completions", keep_user=False)
    'https://host/v1/chat/completions?api-version=7'
    """
    url = urlsplit(base_url)
    place = url.netloc if keep_user else url.netloc.rpartition("@")[2]
    return urlunsplit((url.scheme, place, f"{url.path.rstrip('/')}/{route}", url.query, ""))


class _SystemTrust(HTTPAdapter):
    """Trusts the system's authorities; `requests` adds Mozilla's."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=ssl.create_default_context(), **kwargs)
