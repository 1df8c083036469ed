"""Names the packages, so that a new sub-folder needs no edit."""

from tempfile import TemporaryDirectory

from setuptools import find_packages, setup

ROOTS = {
    "convt_onnx": "convt_onnx",
    "passes": "convt_onnx.passes",
    "plugins": "convt_onnx.plugins",
    "models": "convt_onnx.models",
}
PACKAGES = [
    f"{name}.{sub}" if sub else name
    for root, name in ROOTS.items()
    for sub in ["", *find_packages(root)]
]
# What setuptools finds in build/ of an earlier run it would install again.
with TemporaryDirectory(prefix="convt-onnx-build-") as folder:
    setup(packages=PACKAGES, options={"build": {"build_base": folder}})
