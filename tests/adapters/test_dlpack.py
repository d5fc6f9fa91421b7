# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, through DLPack: read in place on the CPU; anything else refused."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from columns import COUNTS, VALUES, WIDE, Spy, address, failing_kernels, fixed

from dpfast import Gaussian, Sensitivity, adapters
from dpfast.errors import DTypeError, ParameterError


class Foreign:
    """An array that speaks DLPack and nothing else; device: where it says that it lies."""

    def __init__(self, array, device=(1, 0)) -> None:
        self.array, self.place = array, device

    def __dlpack__(self, **options) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple:
        return self.place


# ------------------------------------------------------------------ any library


def test_an_array_of_an_unknown_library() -> None:
    """Gives the NumPy array that NumPy's own would give, and is read where it lies."""
    for array in (np.arange(100), np.arange(100, dtype=np.uint8)[::3], np.arange(100).reshape(4, 25).T):
        spy = Spy()
        spy.release(Foreign(array))
        assert address(spy.given) == address(array)
        noisy = fixed(Foreign(array))
        assert type(noisy) is np.ndarray
        assert np.array_equal(noisy, fixed(array))
    reals = np.linspace(0, 1, 50, dtype=np.float32)
    assert fixed(Foreign(reals), VALUES).tolist() == fixed(reals, VALUES).tolist()
    assert (WIDE.release(Foreign(np.arange(100))) != np.arange(100)).all()


def test_an_array_of_an_unknown_library_refused() -> None:
    """Another device, no number, a failing hand-over: refused, without its message."""

    class Broken(Foreign):
        def __dlpack__(self, **options) -> object:
            raise BufferError("91 is in cell 7")

    cells = np.full(3, 91)
    with pytest.raises(DTypeError, match=r"^Foreign \(dtype unknown, device unknown\) cannot be read where it lies"):
        COUNTS.release(Foreign(cells, (2, 0)))
    with pytest.raises(DTypeError, match="not bool: "):
        COUNTS.release(Foreign(cells > 0))
    with pytest.raises(DTypeError, match=r"^Broken .* cannot be read where it lies") as caught:
        COUNTS.release(Broken(cells))
    assert "91" not in str(caught.value)
    assert caught.value.__suppress_context__
    with pytest.raises(ParameterError, match="^out is for NumPy arrays: a release of Foreign"):
        COUNTS.release(Foreign(cells), out=cells)


def test_a_failure_gives_nothing(monkeypatch) -> None:
    """A kernel that has written counts when it fails: no array, and what was written is zero."""
    written, counts = failing_kernels(monkeypatch), np.full(5000, 91)
    with pytest.raises(RuntimeError, match="^planted$"):
        COUNTS.release(Foreign(counts))
    assert len(written) == 1
    assert not written[0].any()
    assert (counts == 91).all()


def test_numpy_itself_goes_straight() -> None:
    mapped = np.arange(3).view(np.memmap)
    for values in (np.arange(3), mapped, np.int64(3), [1, 2], (1, 2), 5, range(3), memoryview(b"ab")):
        assert adapters.releaser(values, None) is None
    assert type(COUNTS.release(mapped)) is np.ndarray


def test_an_array_of_the_standard() -> None:
    xp = pytest.importorskip("array_api_strict")
    array = xp.arange(100, dtype=xp.int32)
    assert fixed(array).tolist() == fixed(np.arange(100)).tolist()


# ------------------------------------------------------------------ torch


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


def test_tensors_of_any_shape(torch) -> None:
    counts = torch.arange(60).reshape(3, 20)
    for cut in (counts, counts.T, counts[:, ::3], counts[1], counts[0, 0], torch.ones(5, 4, dtype=torch.int64).T):
        spy = Spy()
        noisy = fixed(cut)
        assert isinstance(noisy, torch.Tensor)
        assert noisy.dtype == torch.int64
        assert noisy.shape == cut.shape
        assert noisy.tolist() == fixed(cut.numpy()).tolist()
        made = spy.release(cut)
        assert (address(spy.given), address(spy.made)) == (cut.data_ptr(), made.data_ptr())
    assert counts.flatten().tolist() == list(range(60))
    for dtype in (torch.float32, torch.float64):
        values = torch.linspace(-5, 5, 100, dtype=dtype)[::3]
        for mech in (VALUES, Gaussian(2, sensitivity=Sensitivity(1, 3))):
            assert fixed(values, mech).tolist() == fixed(values.numpy(), mech).tolist()
        values[3] = float("nan")
        for mech in (VALUES, Gaussian(2, sensitivity=Sensitivity(1, 3))):
            with pytest.raises(ParameterError, match="^values must be finite"):
                mech.release(values)
            assert fixed(values, mech, missing=1, clamp=(0, 4)).isfinite().all()


def test_tensors_refused(torch) -> None:
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


def test_a_tensor_on_a_gpu(torch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    with pytest.raises(DTypeError, match=r"^Tensor \(dtype torch.int64, device cuda:0\) cannot be read"):
        COUNTS.release(torch.arange(3, device="cuda"))
