"""The floor that Hermes is compared with: a relay of Flask and requests that does nothing but pass bytes on.

No routing, no fallback, no record. Served by gunicorn's gevent worker, which patches the sockets before this is loaded.
"""

from __future__ import annotations

import os

import requests
from flask import Flask, Response, request
from requests.adapters import HTTPAdapter

UPSTREAM = os.environ["UPSTREAM"]

app = Flask(__name__)
session = requests.Session()
session.trust_env = False
session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=1000))


@app.post("/v1/chat/completions")
def relay() -> Response:
    """Passes the request on, and the answer back as it comes."""
    answer = session.post(
        UPSTREAM,
        data=request.get_data(),
        headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
        stream=True,
        timeout=600,
    )
    headers = {"Content-Type": answer.headers["Content-Type"]}
    if answer.headers["Content-Type"].startswith("text/event-stream"):
        return Response(answer.iter_content(chunk_size=None), answer.status_code, headers)
    return Response(answer.content, answer.status_code, headers)
