"""The run directory of one `headway serve`."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.run_dir import RunDir, default_base
from services.runtime.lifecycle import BadSetting


@pytest.fixture
def base(tmp_path):
    short = Path(f"/tmp/hw-{os.getpid()}-{tmp_path.name[-8:]}")
    yield short
    subprocess.run(["rm", "-rf", str(short)], check=True)


def test_it_is_fresh_private_and_gone_afterwards(base):
    """Each has its own folder that nobody else can enter; it leaves nothing behind."""
    with RunDir(base) as first, RunDir(base) as second:
        assert first.path != second.path
        assert stat.S_IMODE(first.path.stat().st_mode) == 0o700
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
        (first.path / "socket").touch()
    assert list(base.glob("run-*")) == []


def test_those_of_the_dead_are_removed_and_those_of_the_living_stay(base):
    """A run directory whose owner was killed goes when the next one is made; a living one's does not."""
    code = f"import os, pathlib; from services.cli.run_dir import RunDir; d = RunDir(pathlib.Path({str(base)!r})); d.__enter__(); print(d.path, flush=True); input()"
    dead, living = (
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    dead_path, living_path = (Path(each.stdout.readline().strip()) for each in (dead, living))
    dead.kill()
    dead.wait()
    with RunDir(base) as mine:
        assert {path.name for path in base.glob("run-*")} == {living_path.name, mine.path.name}
        assert not dead_path.exists()
    living.kill()
    for each in (dead, living):
        each.wait()
        each.stdin.close()
        each.stdout.close()


def test_a_base_that_others_can_enter_is_refused(base):
    """A folder with open permissions, or a link, is not trusted with sockets."""
    base.mkdir()
    base.chmod(0o755)
    with pytest.raises(BadSetting, match="nobody else can enter"), RunDir(base):
        pass
    base.rmdir()
    base.symlink_to("/")
    with pytest.raises(BadSetting, match="nobody else can enter"), RunDir(base):
        pass


def test_a_path_too_long_for_sockets_is_refused(base):
    """A unix socket's path is bounded; that is said before anything is started."""
    deep = base / ("x" * 90)
    base.mkdir(mode=0o700)
    with pytest.raises(BadSetting, match="too long"), RunDir(deep):
        pass
    assert list(deep.glob("run-*")) == []


def test_the_base_is_the_users_own(monkeypatch, tmp_path):
    """It lies in XDG_RUNTIME_DIR where that can be used, else in /tmp, and names the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_base() == tmp_path / f"headway-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "absent"))
    assert default_base() == Path(f"/tmp/headway-{os.getuid()}")
