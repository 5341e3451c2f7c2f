"""The Iceberg REST catalog over HTTP: its routes, its response types, its error format.

Promises: `GET /v1/config` lists what is served and nothing else; every request passes the same edge,
identity and privilege matrix as those of the native API; a commit with an unknown outcome is never answered
with a 4xx, since clients then delete what they have written.
Never decides anything about tables: that is for the package `arco.iceberg`, which does not know HTTP.
"""
