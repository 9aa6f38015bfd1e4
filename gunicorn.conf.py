"""How gunicorn runs Hermes: `gunicorn -c gunicorn.conf.py app:app`, from any working directory.

The master reads the environment and the configuration here, so that one that cannot work ends the start with all its
problems. It loads nothing of the application (no preload): each worker is forked first, patched by gevent, and opens
its own files and connections.
"""

import gc
import os
import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
# First of all, before the working directory: some other app.py there must not be taken for ours.
sys.path[:] = [HERE, *(path for path in sys.path if path != HERE)]

from hermes.cli.start import Start, read_start  # noqa: E402
from hermes.errors import ConfigurationInvalid, StartRefused  # noqa: E402
from hermes.observe.workerfiles import VARIABLE, WorkerFiles  # noqa: E402
from hermes.settings import Settings  # noqa: E402
from hermes.web.places import connections_of, raised_file_limit  # noqa: E402
from hermes.web.worker import HermesWorker, call_app, logger_of  # noqa: E402

REFUSED = 3

GARBAGE_THRESHOLDS = (2000, 5, 10)
"""When the collector looks among the youngest, the young, all. Python's (700, 10, 10) would look after a few requests
each; a look costs 1 ms for 1,000 objects that are alive, so that these bounds keep the loop from standing for 10 ms.
"""

PROBLEMS: list[str] = []

try:
    START = read_start(os.environ)
except ConfigurationInvalid as invalid:
    START, PROBLEMS = Start(Settings(), None), invalid.lines()
except StartRefused as refused:
    START, PROBLEMS = Start(Settings(), None), [f"Hermes cannot start: {refused}"]


# -- hooks ------------------------------------------------------------------------------------------------


def on_starting(server):
    """Ends the start here, in the master, with sentences; a worker's failure would come with a traceback."""
    if PROBLEMS:
        print(*PROBLEMS, sep="\n", file=sys.stderr, flush=True)  # noqa: T201
        sys.exit(REFUSED)
    if START.settings.workers > 1 or os.environ.get(VARIABLE):
        # Kept by the server, as this file is read anew at a SIGHUP, which must not reset the counts.
        server.metric_files = WorkerFiles(os.environ.get(VARIABLE))
        os.environ[VARIABLE] = str(server.metric_files.folder)


def post_worker_init(worker):
    """In the worker, when all is loaded: that stays, so the garbage collector need not look through it again and again.

    A full collection stopped the event loop for 95 ms before.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def child_exit(server, worker):
    """In the master, when a worker has ended, however that was."""
    if hasattr(server, "metric_files"):
        server.metric_files.forget(worker.pid)


def on_exit(server):
    """In the master, at its own end."""
    if hasattr(server, "metric_files"):
        server.metric_files.remove()


def worker_exit(server, worker):
    """After the last request: what is still to be written is written."""
    call_app(worker, "close")


# -- settings ---------------------------------------------------------------------------------------------

bind = START.bind
worker_class = HermesWorker
workers = START.settings.workers
worker_connections = connections_of(raised_file_limit())
preload_app = False
logger_class = logger_of(
    START.settings.log_level,
    START.settings.log_format,
    (START.policy.secrets if START.policy else frozenset()) | {START.settings.state_password()},
)
accesslog = None
"""The usage log has every completion, with what a line of text cannot say."""

timeout = 60
"""A worker whose event loop has stood still for a minute is replaced; the length of a request does not matter."""

graceful_timeout = max(1, int(START.settings.grace_s))
"""gunicorn's 30 s would cut ordinary answers at every deploy."""

keepalive = 75
"""Longer than what clients and proxies keep an idle connection for (nginx and AWS 60 s, httpx 5 s), so that it is the
client who closes it: a request sent into a connection that is just being closed here is lost. It also bounds how slowly
a request's head may come. Never 0, which switches that bound off."""

control_socket_disable = True
"""Two servers of one user would fight for it, and nobody needs it."""

if os.access("/dev/shm", os.W_OK):  # noqa: S108
    worker_tmp_dir = "/dev/shm"  # noqa: S108
    """The heartbeat's file; on a busy disk touching it can stop the loop."""

# What a request may look like.
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190
header_map = "drop"
"""`X_Foo` and `X-Foo` are the same to WSGI, so the first could forge the second. It is left out rather than refused:
clients that send one have done nothing wrong."""

forwarder_headers = ""
"""No proxy may set SCRIPT_NAME, PATH_INFO or REMOTE_USER by a header."""
