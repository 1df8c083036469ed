"""Names the packages, so that a new sub-folder needs no edit."""

from setuptools import find_packages, setup

ROOTS = {"convt_onnx": "convt_onnx"} | {r: f"convt_onnx.{r}" for r in ("passes", "plugins", "models")}
setup(packages=[n + s for r, n in ROOTS.items() for s in ["", *(f".{p}" for p in find_packages(r))]])
