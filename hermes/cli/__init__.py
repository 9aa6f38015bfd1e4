"""The command line, `python -m hermes`: one module a command group. Prints, and calls what the server calls.

Nothing here imports the web framework or the event loop: the server is another process.
"""
