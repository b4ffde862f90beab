"""Requests with credentials follow no redirect."""

from __future__ import annotations

import urllib.request


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry credentials to another server, and makes a GET of a POST. The answer
    becomes an HTTPError."""

    def redirect_request(self, *_args: object, **_kwargs: object) -> None:
        return None
