"""What tells one processor from another."""

from __future__ import annotations

import pytest

from convt_onnx import machine
from convt_onnx.prediction.vectors import AVX2, AVX512, vectors_here

INFO = """processor\t: 0
cpu family\t: {family}
model\t\t: {model}
model name\t: AMD EPYC
flags\t\t: fpu avx2{flags}

processor\t: 1
cpu family\t: 99
flags\t\t: avx512f
"""


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    """Put a text in place of /proc/cpuinfo, or none."""

    def install(text=None):
        path = tmp_path / "cpuinfo"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(machine, "CPU_INFO", path)
        machine._cpu_facts.cache_clear()

    yield install
    machine._cpu_facts.cache_clear()


def test_virtual_machines_that_name_processors_the_same(cpuinfo):
    cpuinfo(INFO.format(family=25, model=1, flags=""))
    assert machine.processor() == "AMD EPYC (family 25, model 1)"
    assert vectors_here() is AVX2
    cpuinfo(INFO.format(family=26, model=2, flags=" avx512f avx512dq"))
    assert machine.processor() == "AMD EPYC (family 26, model 2, AVX-512)"
    assert vectors_here() is AVX512


def test_a_processor_that_is_not_numbered(cpuinfo):
    cpuinfo("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd40\n")
    assert machine.processor()
    assert vectors_here() is AVX2


def test_a_system_without_proc(cpuinfo):
    cpuinfo()
    assert machine.processor()
    assert not machine.has_avx512()


def test_a_file_that_is_not_text(cpuinfo):
    cpuinfo()
    machine.CPU_INFO.write_bytes(b"model name\t: Intel\xae Xeon\nflags\t: avx512f\n\n")
    assert machine.processor().startswith("Intel")
    assert machine.has_avx512()


def test_a_file_that_cannot_be_read(cpuinfo):
    cpuinfo()
    machine.CPU_INFO.mkdir()
    assert machine.processor()
