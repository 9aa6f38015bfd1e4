"""`/openapi.json`: what the HTTP surface is, for programs.

`routes` has a value for each route and method, `shapes` what bodies look like, `document` makes OpenAPI of both. A test
walks the application's map of routes and says which are not described, and another holds answers to their shapes.
"""
