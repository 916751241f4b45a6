"""HTTP to a Hugging Face hub: its address, the user's token, redirects, and what its refusals mean."""

import os
import urllib.error
import urllib.request
from http.client import HTTPResponse
from typing import Any

from services.executor.weights.errors import FetchFailed, MalformedModel, ModelNotFound

DEFAULT_ENDPOINT = "https://huggingface.co"
_TIMEOUT_S = 30.0
_RANGE_WRONG = 416
_REFUSALS = (401, 403, 404)


def _endpoint() -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_ENDPOINT
    if not endpoint.startswith(("https://", "http://")):
        raise FetchFailed("HF_ENDPOINT is no http or https address")
    return endpoint


def open_url(path: str, repository: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    """Asks the hub for `path`.

    Raises:
        ModelNotFound: the hub has no such model, or does not show it.
        FetchFailed: the address is none, or a redirect would leave encryption.
        OSError: the network failed, or the hub is in trouble; worth another attempt.
    """
    request = urllib.request.Request(_endpoint() + path, headers={"User-Agent": "headway", **(headers or {})})  # noqa: S310 - checked scheme
    token = os.environ.get("HF_TOKEN", "")
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")  # never to where the hub redirects
    try:
        response: HTTPResponse = _OPENER.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == _RANGE_WRONG:
            raise ConnectionError("the server does not have the range that was asked for") from error
        if error.code in _REFUSALS:
            raise ModelNotFound(
                f"the hub has no model {repository} of that revision, or does not show it (status {error.code}); "
                "check the name, and HF_TOKEN where access to it is restricted"
            ) from error
        raise ConnectionError(f"the hub answered with status {error.code}") from error
    return response


class _SafeRedirect(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to plain http."""

    def redirect_request(  # noqa: PLR0917 - urllib's signature
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise FetchFailed("the hub redirects to an address that is not encrypted; refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SafeRedirect)


def reason_of(error: Exception) -> str:
    """Why the network failed, in few words."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    words = cause.strerror if isinstance(cause, OSError) else None
    return words or str(cause) or type(cause).__name__


def whole(response: HTTPResponse, most: int) -> bytes:
    """All of an answer of at most `most` bytes."""
    data = response.read(most + 1)
    if len(data) > most:
        raise MalformedModel(f"the hub's answer is longer than {most} bytes")
    return data
