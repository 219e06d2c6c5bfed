"""Only the optional compiled kernels need code; everything else is in pyproject.toml."""

from setuptools import setup

setup()
