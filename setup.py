"""Compiles the CPU kernels while the package is installed; everything else stands in pyproject.toml."""

import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from kernels.cpu import build  # noqa: E402 (an isolated build does not look for modules beside setup.py)


class BuildKernels(build_ext):
    """Makes a plain shared library with a C interface where setuptools would make a Python module."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        if build.is_current():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(build.LIBRARY, target)
            return
        try:
            build.build(target)
        except (build.CompilerMissing, build.CompileFailed) as failed:
            build.LIBRARY.unlink(missing_ok=True)  # of other sources, as what stood at the target was
            # The extension is optional: setuptools says so and installs the rest. The executor says it again when it
            # starts, and serves with torch.
            raise CompileError(f"the compiled CPU kernels could not be built: {failed}") from failed


relative = [str(path.relative_to(ROOT)) for path in build.sources()]
kernels = Extension(
    "kernels.cpu._headway_cpu",
    sources=[name for name in relative if name.endswith(".cpp")],
    depends=[name for name in relative if name.endswith(".h")],
    optional=True,
)
setup(ext_modules=[kernels], cmdclass={"build_ext": BuildKernels})
