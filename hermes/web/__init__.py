"""HTTP in, HTTP out: parses, calls, answers. Decisions about money, tiers or keys are made elsewhere.

Nothing is imported here: gunicorn's master needs `worker.py` of this package, and must not load the application.
"""
