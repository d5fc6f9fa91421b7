# SPDX-License-Identifier: Apache-2.0
"""Noise within a kernel of one's own: a mechanism's handle, and the functions that take it there.

Compiled code knows of the C one name, which numba's cache keeps: SYMBOL, whose number changes with
what the function takes. What else it knows of dpfast is in the name of a handle's type. So a kernel
that a cache kept from another dpfast meets no handle of its type, and is compiled anew.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn, Self

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import get_num_threads, njit, prange, types
from numba.core import cgutils, errors
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox
from numba.extending import intrinsic as _intrinsic
from numba.np.numpy_support import from_dtype

from dpfast import _native
from dpfast.errors import DpfastError, DTypeError, EntropyError, ParameterError, StateError, UnusableValuesError
from dpfast.noise.kernels.jit import DIGEST, jit
from dpfast.privacy.parameters import shown

intrinsic: Any = _intrinsic  # which numba types as a class without the compiler's argument
SYMBOL = "dpfast_add_1"
llvmlite.binding.add_symbol(SYMBOL, _native.ADD_FRESH)

DONE, NOT_FINITE, NO_KEY, _AGAIN, OPEN = 0, _native.NOT_FINITE, _native.NO_KEY, _native.AGAIN, _native.OPEN
UNDONE = -11  # a block that nobody came to: an exception of prange is lost, such as no memory
BLOCK = 65_536  # values that one key serves in a kernel of ours
ARRAYS = -10  # their shapes differ, they overlap without being one, or they are not aligned


class Noise:
    """A mechanism and a type of values, for code that numba compiles.

    mechanism: one that adds noise to arrays, such as a DiscreteLaplace. It has checked its
        parameters. One made for a Sensitivity with `cells` is refused: nobody counts them here.
    dtype: of values and results: of integers for a mechanism on these, and int64 by default; else
        float64, the default, or float32.
    lower, upper: public bounds of a result, as of `release`.

    It never changes, goes through a fork, and is not pickled: each process makes its own. Making it
    spends no privacy. Each `add` and each `draw` spends as much as a `release`, and no ledger notes
    it.
    Raises: DTypeError, ParameterError.

        >>> import dpfast.numba
        >>> noise = dpfast.numba.Noise(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1), lower=0)
        >>> noise.dtype
        dtype('int64')
    """

    __slots__ = ("_pair", "address", "dtype", "mechanism")
    mechanism: Any
    dtype: np.dtype[Any]
    address: int

    def __new__(cls, mechanism: Any, dtype: Any = None, *, lower: Any = None, upper: Any = None) -> Self:
        prepare = getattr(type(mechanism), "_in_kernels", None)
        if prepare is None:
            what = type(mechanism).__name__
            raise DTypeError(f"mechanism must be one that adds noise to arrays, such as DiscreteLaplace, not {what}")
        dtype, pair = prepare(mechanism, dtype, lower, upper)
        made = super().__new__(cls)  # not __init__, which a second call would let change what a kernel reads
        for name, value in zip(cls.__slots__, (pair, pair.address, dtype, mechanism), strict=True):
            object.__setattr__(made, name, value)
        return made

    def __init_subclass__(cls) -> NoReturn:
        raise StateError("a Noise of dpfast.numba has no subclasses")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise StateError("a Noise of dpfast.numba does not change: make another")

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    def __reduce__(self) -> NoReturn:
        raise StateError("a Noise of dpfast.numba cannot be pickled or copied: make it where it is used")


class NoiseType(types.Type):
    """Noise of one type of values, in this dpfast."""

    def __init__(self, of: types.Type) -> None:
        self.of = of
        known = SYMBOL, DIGEST, _native.SMALL, NOT_FINITE, NO_KEY, _AGAIN, OPEN
        super().__init__(f"Noise({of}, {', '.join(map(str, known))})")


@typeof_impl.register(Noise)
def _type_of(noise: Noise, _context: Any) -> NoiseType:
    return NoiseType(from_dtype(noise.dtype))


@register_model(NoiseType)
class _Model(models.StructModel):
    """The address of a pair of releases, and what keeps it alive."""

    def __init__(self, manager: Any, kind: NoiseType) -> None:
        members = [("owner", types.MemInfoPointer(types.voidptr)), ("pair", types.voidptr)]
        super().__init__(manager, kind, members)


@unbox(NoiseType)
def _unbox(kind: NoiseType, noise: Any, c: Any) -> NativeValue:
    found = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    address = c.pyapi.object_getattr_string(noise, "address")
    number = c.pyapi.long_as_ulonglong(address)
    c.pyapi.decref(address)
    found.pair = c.builder.inttoptr(number, cgutils.voidptr_t)
    found.owner = c.pyapi.nrt_meminfo_new_from_pyobject(found.pair, noise)
    made = found._getvalue()  # noqa: SLF001  numba's own way
    return NativeValue(made, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _call(context: Any, builder: Any, noise: tuple[Any, Any], n: Any, values: Any, out: Any) -> Any:
    """dpf_add_fresh: few values by the pair's first release, many by its second."""
    pair = cgutils.create_struct_proxy(noise[0])(context, builder, noise[1]).pair
    status = cgutils.alloca_once_value(builder, ir.Constant(n.type, UNDONE))  # a jitclass may hold no handle yet
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, pair)):
        builder.store(_called(builder, pair, n, values, out), status)
    return builder.load(status)


def _called(builder: Any, pair: Any, n: Any, values: Any, out: Any) -> Any:
    pointer = cgutils.voidptr_t.as_pointer()
    many = builder.zext(builder.icmp_signed(">=", n, ir.Constant(n.type, _native.SMALL)), n.type)
    how = builder.load(builder.gep(builder.bitcast(pair, pointer), [many]))
    kind = ir.FunctionType(n.type, [cgutils.voidptr_t, n.type, cgutils.voidptr_t, cgutils.voidptr_t])
    function = cgutils.get_or_insert_function(builder.module, kind, SYMBOL)
    ends = (builder.bitcast(each, cgutils.voidptr_t) for each in (values, out))
    return builder.call(function, [how, n, *ends])


def _expect(noise: Any) -> None:
    if not isinstance(noise, NoiseType):
        raise errors.TypingError(f"noise must be a dpfast.numba.Noise, not {noise}")


@intrinsic
def _added(_typing: Any, noise: Any, values: Any, out: Any) -> Any:
    """What dpf_add_fresh returns of arrays of one size."""
    _expect(noise)
    for name, array in (("values", values), ("out", out)):
        if not isinstance(array, types.Array) or array.dtype != noise.of:
            raise errors.TypingError(f"{name} must be an array of {noise.of}, as the Noise is, not {array}")
        if array.layout != "C":
            raise errors.TypingError(f"{name} must be in C order, one value after the other, not {array}")
    if values.ndim != out.ndim:
        raise errors.TypingError("out must have as many axes as values")
    if not out.mutable:
        raise errors.TypingError("out must be an array that may be written")

    def lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        kinds = signature.args
        x, y = (
            context.make_array(kind)(context, builder, each) for kind, each in zip(kinds[1:], given[1:], strict=True)
        )
        return _call(context, builder, (kinds[0], given[0]), x.nitems, x.data, y.data)

    return types.int64(noise, values, out), lowered


@intrinsic
def _one(_typing: Any, noise: Any, value: Any) -> Any:
    """What dpf_add_fresh returns of one value, and the result; 0 if there is none."""
    _expect(noise)
    if value != noise.of:
        raise errors.TypingError(f"value must be of {noise.of}, as the Noise is, not {value}")
    result = types.Tuple([types.int64, noise.of])

    def lowered(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = cgutils.alloca_once_value(builder, given[1])
        one = ir.Constant(ir.IntType(64), 1)
        status = _call(context, builder, (signature.args[0], given[0]), one, place, place)
        zero = context.get_constant_null(noise.of)
        found = builder.select(builder.icmp_signed("==", status, one), builder.load(place), zero)
        return context.make_tuple(builder, result, (status, found))

    return result(noise, value), lowered


@njit(nogil=True)
def _fit(values, out):
    """Whether results for values may lie in out. Numba calls every array aligned."""
    x, y, n = values.ctypes.data, out.ctypes.data, values.nbytes
    apart = x == y or x + n <= y or y + n <= x
    return values.shape == out.shape and apart and (x | y) % values.itemsize == 0


@njit(nogil=True)
def try_add(noise, values, out):
    """As `add`, for `prange`, where nothing may be raised: returns a status, for `check` later.

    DONE; or NOT_FINITE, NO_KEY, OPEN or ARRAYS, and all of `out` is 0. Begin with UNDONE in what
    keeps them: prange loses every exception, such as one of memory.
    """
    if not _fit(values, out):
        status = np.int64(ARRAYS)
    else:
        status = _added(noise, values, out)
        while status == _AGAIN:
            status = _added(noise, values, out)
        if status == values.size:
            return np.int64(DONE)
    for i in range(out.size):
        out.flat[i] = 0
    return status


@njit(nogil=True)
def try_draw(noise, value):
    """As `draw`, for `prange`: returns a status, as of `try_add`, and the result or 0."""
    status, found = _one(noise, value)
    while status == _AGAIN:
        status, found = _one(noise, value)
    return np.int64(DONE) if status == 1 else status, found


@njit(nogil=True)
def check(status):
    """Raise what a status of `try_add` or `try_draw` means, if it is not DONE.

    Raises: UnusableValuesError, EntropyError, DTypeError, DpfastError.

        >>> import dpfast.numba
        >>> dpfast.numba.check(dpfast.numba.DONE)
    """
    if status == NOT_FINITE:
        raise UnusableValuesError("values must be finite")
    if status == NO_KEY:
        raise EntropyError("the operating system gave no random key; nothing was released")
    if status == ARRAYS:
        raise DTypeError(
            "out must be values themselves, or of their shape and apart from them, and both must be aligned"
        )
    if status == UNDONE:
        raise DpfastError("nothing was done: a block was lost, perhaps because memory ran out, or there is no handle")
    if status != DONE:
        raise DpfastError("all digits of a draw leave it undecided, so nothing is released")


@njit(nogil=True)
def add(noise, values, out):
    """Fill `out` with `values` plus fresh noise, under a key of this call alone.

    noise: a Noise. values: an array of its type, in C order. out: another of its shape, or values
    themselves; after a failure it is all 0. Within `prange`, which loses exceptions, call
    `try_add`.
    Raises: as `check`.

        >>> import dpfast.numba
        >>> noisy = np.empty(3, np.int64)
        >>> noise = dpfast.numba.Noise(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1))
        >>> dpfast.numba.add(noise, np.array([3, 5, 7]), noisy)
    """
    check(try_add(noise, values, out))


@njit(nogil=True)
def draw(noise, value):
    """One value of the Noise's type plus fresh noise, under a key of its own.

    Raises: as `check`.

        >>> import dpfast.numba
        >>> noise = dpfast.numba.Noise(dpfast.Laplace(epsilon=1, sensitivity=1))
        >>> abs(dpfast.numba.draw(noise, 1000.0) - 1000) < 50
        True
    """
    status, found = try_draw(noise, value)
    check(status)
    return found


@jit(None, parallel=True)
def _bounded(noise, values, least, most, out, parts):
    """The statuses of the blocks. A bounded value lies in memory of its part alone."""
    blocks = -(-values.size // BLOCK)
    statuses = np.full(blocks, UNDONE)
    room = np.empty((parts, BLOCK), values.dtype)  # at once, for in prange a MemoryError is lost
    for part in prange(parts):
        for block in range(blocks * part // parts, blocks * (part + 1) // parts):
            begin = block * BLOCK
            n = min(BLOCK, values.size - begin)
            for i in range(n):
                value = values[begin + i]
                if value < least:
                    value = least
                elif value > most:  # NaN is neither
                    value = most
                room[part, i] = value
            statuses[block] = try_add(noise, room[part, :n], out[begin : begin + n])
        room[part, :] = 0
    return statuses


def _plain(name: str, array: Any, dtype: np.dtype[Any]) -> Any:
    plain = type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned
    if not plain or array.dtype != dtype or array.ndim != 1:
        raise DTypeError(f"{name} must be an array of {dtype} with one axis, aligned and in C order")
    return array


def _number(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            if (found := dtype.type(value)) == value:
                return found
    raise ParameterError(f"{name} must be a number that {dtype} holds, got {shown(value)}")


def bound_and_add(noise: Noise, values: Any, least: Any, most: Any, out: Any = None) -> Any:
    """Bound each value to [least, most], add noise, in blocks of 65,536 on numba's threads.

    noise: a Noise, whose mechanism was made for what one unit can change of bounded values.
    values: an array of its type, of one axis and in C order.
    least, most: public numbers of that type.
    out: another array like it, or values themselves. If an argument is refused it is untouched,
        and after a failure of a draw all 0.

    Each block has a key of its own. NaN is refused, not bounded.
    Raises: DTypeError, ParameterError, UnusableValuesError, EntropyError.

        >>> import dpfast.numba
        >>> noise = dpfast.numba.Noise(dpfast.DiscreteLaplace(epsilon=1, sensitivity=1))
        >>> dpfast.numba.bound_and_add(noise, np.array([3, 1_000, -5]), 0, 10).shape
        (3,)
    """
    if not isinstance(noise, Noise):
        raise DTypeError(f"noise must be a Noise of dpfast.numba, not {type(noise).__name__}")
    ends = [_number(name, end, noise.dtype) for name, end in (("least", least), ("most", most))]
    if not ends[0] <= ends[1]:
        raise ParameterError(f"least must be at most most, got {ends[0]} and {ends[1]}")
    _plain("values", values, noise.dtype)
    made = np.empty_like(values) if out is None else _plain("out", out, noise.dtype)
    if not made.flags.writeable:
        raise ParameterError("out must be an array that may be written")
    if made.size != values.size or not (made is values or not np.may_share_memory(made, values)):
        check(ARRAYS)
    try:
        statuses = _bounded(noise, values, *ends, made, get_num_threads())
    except BaseException:
        made.fill(0)
        raise
    if statuses.any():
        made.fill(0)
        check(statuses[statuses != DONE][0])
    return made
