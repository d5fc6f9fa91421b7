# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, through DLPack: read in place on the CPU; anything else refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpfast import (
    DiscreteLaplace,
    DTypeError,
    Gaussian,
    InsecureKeyWarning,
    Laplace,
    ParameterError,
    Sensitivity,
    adapters,
    kernels,
)
from dpfast.testing import fixed_key

COUNTS, VALUES = DiscreteLaplace(1, 3), Laplace(1, 3)
WIDE = DiscreteLaplace(1, 2**40)  # a cell comes out as it went in with probability 2^-41


def keyed(values, mech=COUNTS, **options):
    """A release whose noise is a function of what NumPy would have been given."""
    with pytest.warns(InsecureKeyWarning):
        return mech.release(values, key=fixed_key(7).derive("dlpack"), start=0, **options)


class Spy:
    """A mechanism that remembers what reaches the engine."""

    def release(self, array, **options):
        self.given, self.made = array, (COUNTS if array.dtype.kind in "iu" else VALUES).release(array, **options)
        return self.made


class Foreign:
    """An array of a library that speaks DLPack and nothing else; device: where it says that it lies."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.place = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.place


# ------------------------------------------------------------------ any library


def test_an_array_of_an_unknown_library():
    """Gives the NumPy array that NumPy's own would give, and is read where it lies."""
    for array in (np.arange(100), np.arange(100, dtype=np.uint8)[::3], np.arange(100).reshape(4, 25).T):
        spy = Spy()
        adapters.releaser(Foreign(array), None)(spy.release, Foreign(array), {})
        assert spy.given.__array_interface__["data"][0] == array.__array_interface__["data"][0]
        noisy = keyed(Foreign(array))
        assert type(noisy) is np.ndarray
        assert np.array_equal(noisy, keyed(array))
    reals = np.linspace(0, 1, 50, dtype=np.float32)
    assert keyed(Foreign(reals), VALUES).tolist() == keyed(reals, VALUES).tolist()
    assert (WIDE.release(Foreign(np.arange(100))) != np.arange(100)).all()


def test_an_array_of_an_unknown_library_refused():
    """On another device, of no number, or that fails to hand over; without a word of its own message."""

    class Broken(Foreign):
        def __dlpack__(self, **options):
            raise BufferError("91 is in cell 7")

    cells = np.full(3, 91)
    with pytest.raises(DTypeError, match=r"^Foreign \(dtype unknown, device unknown\) cannot be read where it lies"):
        COUNTS.release(Foreign(cells, (2, 0)))
    with pytest.raises(DTypeError, match="not bool$"):
        COUNTS.release(Foreign(cells > 0))
    with pytest.raises(DTypeError, match=r"^Broken .* cannot be read where it lies") as caught:
        COUNTS.release(Broken(cells))
    assert "91" not in str(caught.value) and caught.value.__suppress_context__
    with pytest.raises(ParameterError, match="^out is for NumPy arrays: a release of Foreign"):
        COUNTS.release(Foreign(cells), out=cells)


def test_numpy_itself_goes_straight():
    """Arrays, their subclasses, lists and scalars are nobody's business here."""
    for values in (
        np.arange(3),
        np.arange(3).view(np.memmap),
        np.int64(3),
        [1, 2],
        (1, 2),
        5,
        range(3),
        memoryview(b"ab"),
    ):
        assert adapters.releaser(values, None) is None
    assert type(COUNTS.release(np.arange(3).view(np.memmap))) is np.ndarray


def test_an_array_of_the_standard():
    """The array API's reference implementation."""
    xp = pytest.importorskip("array_api_strict")
    array = xp.arange(100, dtype=xp.int32)
    assert keyed(array).tolist() == keyed(np.arange(100)).tolist()


# ------------------------------------------------------------------ torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_tensors_of_integers(torch, dtype):
    """A tensor of int64, or of dtype, on the CPU; any shape, any strides."""
    if not hasattr(torch, dtype):
        pytest.skip("a torch without it")
    counts = torch.arange(60).to(getattr(torch, dtype)).reshape(3, 20)
    for cut in (counts, counts.T, counts[:, ::3], counts[1], counts[0, 0]):
        noisy = keyed(cut)
        assert isinstance(noisy, torch.Tensor) and noisy.dtype == torch.int64 and noisy.shape == cut.shape
        assert noisy.tolist() == keyed(cut.numpy()).tolist()
    assert keyed(counts, dtype=dtype).dtype == getattr(torch, dtype)
    assert counts.flatten().tolist() == list(range(60))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mech", [VALUES, Gaussian(2, sensitivity=Sensitivity(1, 3))], ids=lambda m: m.NAME)
def test_tensors_of_reals(torch, dtype, mech):
    """A real dtype stays; missing serves as for NumPy."""
    values = torch.linspace(-5, 5, 100, dtype=getattr(torch, dtype))[::3]
    noisy = keyed(values, mech)
    assert noisy.dtype == values.dtype and not noisy.requires_grad
    assert noisy.tolist() == keyed(values.numpy(), mech).tolist()
    values[3] = float("nan")
    with pytest.raises(ParameterError, match="^values must be finite"):
        mech.release(values)
    assert keyed(values, mech, missing=1, clamp=(0, 4)).isfinite().all()


def test_tensors_are_not_copied(torch):
    """The engine reads the tensor's memory, and the result is what it wrote."""
    for values in (torch.arange(100), torch.arange(100)[10:90:2], torch.ones(5, 4).T):
        spy = Spy()
        noisy = adapters.releaser(values, None)(spy.release, values, {})
        assert spy.given.__array_interface__["data"][0] == values.data_ptr()
        assert spy.made.__array_interface__["data"][0] == noisy.data_ptr()


def test_tensors_refused(torch):
    """Part of a graph, elsewhere, sparse, or of a type that no law takes."""
    with pytest.raises(DTypeError, match=r"^Tensor requires grad, .* release values\.detach\(\)$"):
        VALUES.release(torch.ones(3, requires_grad=True))
    with pytest.raises(DTypeError, match="^Parameter requires grad"):
        VALUES.release(torch.nn.Parameter(torch.ones(3)))
    assert VALUES.release(torch.ones(3, requires_grad=True).detach()).shape == (3,)
    for elsewhere in (torch.ones(3, device="meta"), torch.ones(3).to_sparse(), torch.ones(3).to(torch.bfloat16),
                      torch.ones(3, dtype=torch.float16), torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.cfloat),
                      torch.ones(3, dtype=torch.cfloat).conj(), torch.ones(3, dtype=torch.cdouble).conj().imag):  # fmt: skip
        for mech in (COUNTS, VALUES):
            with pytest.raises(DTypeError):
                mech.release(elsewhere)
    with pytest.raises(DTypeError, match=r"^Tensor \(dtype torch.float32, device meta\) cannot be read where it lies"):
        VALUES.release(torch.ones(3, device="meta"))
    with pytest.raises(DTypeError, match="not int64: for counts there are"):
        VALUES.release(torch.arange(3))
    with pytest.raises(ParameterError, match="^out is for NumPy arrays: a release of Tensor"):
        COUNTS.release(torch.arange(3), out=np.zeros(3, np.int64))
    with pytest.raises(DTypeError, match="^out must be a plain NumPy array"):
        COUNTS.release(np.arange(3), out=torch.arange(3))


def test_a_tensor_on_a_gpu(torch):
    """Refused by the device's name."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    with pytest.raises(DTypeError, match=r"^Tensor \(dtype torch.int64, device cuda:0\) cannot be read"):
        COUNTS.release(torch.arange(3, device="cuda"))


def test_a_failure_gives_nothing(torch, monkeypatch):
    """A kernel that has written counts when it fails: no tensor, what was written is zero, the tensor as it was."""
    written = []

    def planted(x, y, *rest):
        y[:] = x
        written.append(y)
        raise RuntimeError("planted")

    counts = torch.full((5000,), 91)
    monkeypatch.setattr(kernels, "kernel", lambda name: planted)
    for values in (counts, Foreign(counts.numpy())):
        with pytest.raises(RuntimeError, match="^planted$"):
            COUNTS.release(values)
    assert len(written) == 2 and not any(y.any() for y in written)
    assert (counts == 91).all()
