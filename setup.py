"""What pyproject.toml cannot say: the trained weights lie beside the package, and are installed inside of it."""

from pathlib import Path
from shutil import copytree

from setuptools import setup
from setuptools.command.build_py import build_py


class WithWeights(build_py):
    """Copies `weights/` into the package that is built; an editable install finds them where they lie."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            copytree("weights", Path(self.build_lib, "sfumato", "weights"), dirs_exist_ok=True)


setup(cmdclass={"build_py": WithWeights})
