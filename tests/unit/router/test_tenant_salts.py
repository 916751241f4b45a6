"""Tenant salts."""

import pytest

from services.router.tenant_salts import TenantSalts
from services.runtime.lifecycle import BadSetting


def test_salts_depend_on_tenant_and_secret_and_nothing_else():
    """Two routers with one secret agree; another tenant or another secret has another salt."""
    assert TenantSalts(b"s").of("a") == TenantSalts(b"s").of("a")
    assert len({TenantSalts(secret).of(tenant) for secret in (b"", b"s", b"t") for tenant in ("", "a", "b")}) == 9


def test_a_secret_is_read_from_a_private_file(tmp_path):
    """The file's bytes are the secret, without the newline that editors put at the end."""
    file = tmp_path / "secret"
    file.write_bytes(b"0123456789abcdef\n")
    file.chmod(0o600)
    assert TenantSalts.read(str(file)).of("a") == TenantSalts(b"0123456789abcdef").of("a")
    assert TenantSalts.read("").of("a") == TenantSalts().of("a")


def test_a_file_that_cannot_be_trusted_is_refused(tmp_path):
    """Missing, readable by others or too short: each is said in words."""
    file = tmp_path / "secret"
    with pytest.raises(BadSetting, match="cannot read"):
        TenantSalts.read(str(file))
    file.write_bytes(b"0123456789abcdef")
    file.chmod(0o644)
    with pytest.raises(BadSetting, match="0600"):
        TenantSalts.read(str(file))
    file.chmod(0o600)
    file.write_bytes(b"short")
    with pytest.raises(BadSetting, match="fewer"):
        TenantSalts.read(str(file))
