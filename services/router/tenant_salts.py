"""Tenant salts: what keeps the prefix cache of one tenant from another; made by the server, never chosen by a client."""

import stat
from hashlib import blake2b
from pathlib import Path
from typing import Self

from services.runtime.lifecycle import BadSetting

_MIN_SECRET_BYTES = 16


class TenantSalts:
    """Salts from one key. Routers that share schedulers share it, so that a prompt finds its blocks through any of them."""

    def __init__(self, secret: bytes = b"") -> None:
        """Without a secret the key is a fixed one: enough while there is one tenant, which has nobody to hide from."""
        self._key = blake2b(secret, digest_size=32).digest()

    @classmethod
    def read(cls, secret_file: str) -> Self:
        """The salts of a secret that only its owner can read. Raises `BadSetting`."""
        if not secret_file:
            return cls()
        path = Path(secret_file)
        try:
            mode, secret = path.stat().st_mode, path.read_bytes().strip()
        except OSError as error:
            raise BadSetting(f"salt_secret_file: cannot read {secret_file}: {error.strerror}") from None
        if stat.S_IMODE(mode) & 0o077:
            raise BadSetting(f"salt_secret_file: {secret_file} can be read by others; its mode must be 0600")
        if len(secret) < _MIN_SECRET_BYTES:
            raise BadSetting(f"salt_secret_file: {secret_file} holds fewer than {_MIN_SECRET_BYTES} bytes")
        return cls(secret)

    def of(self, tenant: str) -> bytes:
        """The salt of `tenant`."""
        return blake2b(tenant.encode(), key=self._key, digest_size=32).digest()
