"""What a Hugging Face hub says of a model: the commit that a revision is now, and its files with sizes and checksums.

Every name, size and checksum in the answer is checked before anything is fetched by it.
"""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

from services.executor.weights.errors import MalformedModel, ModelNotFound
from services.executor.weights.hub_http import open_url, whole
from services.executor.weights.json_file import parse_object

_SOURCE = re.compile(r"hf:([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([\w][\w./-]{0,127}))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_LISTING_BYTES = 16 << 20
_MAX_FILES = 100_000


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of the repository as the hub states it: LFS files have a SHA-256, the others the SHA-1 of a git blob."""

    name: str
    num_bytes: int
    sha256: str = ""
    git_sha1: str = ""


@dataclass(frozen=True, slots=True)
class HubCommit:
    """One commit of a repository and its files."""

    repository: str
    commit: str
    files: dict[str, HubFile]


def parse_source(source: str) -> tuple[str, str]:
    """The repository and the revision in 'hf:org/name@revision' (without one: main)."""
    match = _SOURCE.fullmatch(source)
    if match is None or ".." in source:
        raise ModelNotFound(
            f"{source[:120]!r} names no model of a hub; write it as hf:org/name or hf:org/name@revision"
        )
    return match[1], match[2] or "main"


def look_up(repository: str, revision: str) -> HubCommit:
    """Asks the hub for the commit that `revision` is now, and its files."""
    quoted = urllib.parse.quote(revision, safe="")
    with open_url(f"/api/models/{repository}/revision/{quoted}?blobs=true", repository) as response:
        listing = whole(response, _MAX_LISTING_BYTES)
    answer = parse_object(listing.decode(errors="replace"), "the hub's list of files")
    commit = answer.get("sha")
    siblings = answer.get("siblings")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise MalformedModel("the hub's answer names no commit or no files")
    if len(siblings) > _MAX_FILES:
        raise MalformedModel(f"the repository has more than {_MAX_FILES} files")
    files = [_hub_file(sibling) for sibling in siblings]
    return HubCommit(repository, commit, {file.name: file for file in files})


def _hub_file(sibling: Any) -> HubFile:
    """A file of the list; names that leave the repository and sizes that are none make the whole list suspect."""
    if not isinstance(sibling, dict) or not isinstance(sibling.get("rfilename"), str):
        raise MalformedModel("the hub's list of files has an entry without a name")
    name: str = sibling["rfilename"]
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise MalformedModel(f"the hub's list of files has the name {name[:80]!r}, which leaves the model's directory")
    lfs = sibling.get("lfs")
    lfs = lfs if isinstance(lfs, dict) else {}
    num_bytes = lfs.get("size", sibling.get("size"))
    digests = {"sha256": lfs.get("sha256", ""), "git_sha1": "" if lfs else sibling.get("blobId", "")}
    wanted_length = {"sha256": 64 if lfs else 0, "git_sha1": 0 if lfs else 40}
    for kind, digest in digests.items():
        if not isinstance(digest, str) or not re.fullmatch(rf"[0-9a-f]{{{wanted_length[kind]}}}", digest):
            raise MalformedModel(f"the hub states no checksum for {name[:80]!r}")
    if type(num_bytes) is not int or num_bytes < 0:
        raise MalformedModel(f"the hub states no size for {name[:80]!r}")
    return HubFile(name, num_bytes, **digests)
