/* SPDX-License-Identifier: Apache-2.0
 * A release of few plain values in one call from Python. Only cffi's own file includes this one:
 * the rest of the C knows no Python. The interpreter lock is never released here. The work of fewer
 * than DPF_SMALL values ends long before another thread may ask for the lock, and to give it away
 * and wait for it would cost more than most such calls. */
#pragma once
#include "dpf_impl.h"

#include <Python.h>

/* What is asked of an array: its elements one after the other, by rows or by columns, aligned. 0:
 * it is not so. */
static int dpf_bytes(PyObject *array, int flags, size_t size, Py_buffer *found) {
    if (PyObject_GetBuffer(array, found, PyBUF_STRIDES | flags) != 0) {
        PyErr_Clear();
        return 0;
    }
    if ((uintptr_t)found->buf % size == 0 && PyBuffer_IsContiguous(found, 'A'))
        return 1;
    PyBuffer_Release(found);
    return 0;
}

/* Whether results for x may lie in y: of the same shape and order, in the same place or apart. */
static int dpf_fit(const Py_buffer *x, const Py_buffer *y) {
    const uintptr_t a = (uintptr_t)x->buf, b = (uintptr_t)y->buf, n = (uintptr_t)x->len;
    const size_t bytes = (size_t)x->ndim * sizeof *x->shape;
    const int same =
        x->ndim == y->ndim && (bytes == 0 || /* which has no shape */
                               (memcmp(x->shape, y->shape, bytes) == 0 && memcmp(x->strides, y->strides, bytes) == 0));
    return same && (a == b || a + n <= b || b + n <= a);
}

/* Fill y with x plus noise. 1: done; 0: nothing has happened; -1: a Python error, and y is zero. */
static int dpf_fill_small(PyObject *refuse, const dpf_release *how, const Py_buffer *x, const Py_buffer *y, int64_t n) {
    int64_t done;
    while ((done = dpf_add_fresh(how, n, x->buf, y->buf)) == DPF_AGAIN)
        if (PyErr_CheckSignals() != 0)
            break;
    if (done == n || done == DPF_NO_KEY)
        return done == n;
    if (done == DPF_AGAIN)
        dpf_wipe(y->buf, y->len);
    else
        Py_XDECREF(PyObject_CallFunction(refuse, "L", (long long)done)); /* which raises */
    return -1;
}

/* small(refuse, prepared, values, out): the result, or None if nothing has happened and the call
 * must go the general way.
 *     refuse(status) raises what dpf_add means by it
 *     prepared: for each type that comes here, the dtype, the bytes of a dpf_release, and the owner
 *         of the plan that they point at
 *     self: ndarray, empty_like, "dtype", "size" */
static PyObject *dpf_small_call(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    PyObject *const ndarray = PyTuple_GetItem(self, 0), *const empty_like = PyTuple_GetItem(self, 1);
    PyObject *const dtype = PyTuple_GetItem(self, 2), *const size = PyTuple_GetItem(self, 3);
    PyObject *const refuse = given[0], *const prepared = given[1], *const values = given[2];
    PyObject *out = given[3], *found = NULL;
    const dpf_release *how = NULL;
    Py_buffer x, y;
    if (count != 4 || (PyObject *)Py_TYPE(values) != ndarray || (out != Py_None && (PyObject *)Py_TYPE(out) != ndarray))
        Py_RETURN_NONE;

    PyObject *const kind = PyObject_GetAttr(values, dtype), *const length = PyObject_GetAttr(values, size);
    PyObject *const made = out == Py_None ? NULL : PyObject_GetAttr(out, dtype);
    const Py_ssize_t n = length ? PyLong_AsSsize_t(length) : -1, kinds = PyTuple_Size(prepared);
    for (Py_ssize_t i = 0; i + 2 < kinds && (made == NULL || made == kind); i += 3)
        if (PyTuple_GetItem(prepared, i) == kind)
            how = (const dpf_release *)PyBytes_AsString(PyTuple_GetItem(prepared, i + 1));
    Py_XDECREF(kind);
    Py_XDECREF(length);
    Py_XDECREF(made);
    if (PyErr_Occurred())
        return NULL;
    if (how == NULL || n <= 0 || n >= DPF_SMALL)
        Py_RETURN_NONE;

    const size_t bytes = (size_t)dpf_size(how->kind);
    int status = 0;
    if (!dpf_bytes(values, 0, bytes, &x))
        Py_RETURN_NONE;
    out = out == Py_None ? PyObject_CallFunctionObjArgs(empty_like, values, NULL) : Py_NewRef(out);
    if (out == NULL) {
        PyBuffer_Release(&x);
        return NULL;
    }
    if (dpf_bytes(out, PyBUF_WRITABLE, bytes, &y)) {
        if (dpf_fit(&x, &y) && y.len == n * (Py_ssize_t)bytes && (!how->refuse || dpf_all_finite(how->kind, n, x.buf)))
            status = dpf_fill_small(refuse, how, &x, &y, n);
        PyBuffer_Release(&y);
    }
    PyBuffer_Release(&x);
    found = status > 0 ? Py_NewRef(out) : status == 0 ? Py_NewRef(Py_None) : NULL;
    Py_DECREF(out);
    return found;
}

void *dpf_small(void) {
    static PyMethodDef method = {"small", (PyCFunction)(void (*)(void))dpf_small_call, METH_FASTCALL, NULL};
    return &method;
}
