"""The Iceberg REST catalog over HTTP: its routes, its types on the wire, its words for errors.

It promises that `GET /v1/config` names what is served and nothing else, that every request passes the same
edge, identity and matrix as those of the native API, and that no 4xx is answered while it is not known what
became of a commit, since clients then delete what they have written. It decides nothing about tables: that
is the business of the room `iceberg`, which knows nothing of HTTP.
"""
