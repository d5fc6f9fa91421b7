/* SPDX-License-Identifier: Apache-2.0
 * Python's capsules of Arrow's structures. Only cffi's own file includes this one. */
#pragma once
#include "dpf_impl.h"

#include <Python.h>

static const char *const dpf_arrow_names[] = {
    [DPF_ARROW_SCHEMA] = "arrow_schema", [DPF_ARROW_ARRAY] = "arrow_array", [DPF_ARROW_STREAM] = "arrow_array_stream"};

/* What a consumer has moved out is released by the consumer. */
static void dpf_free_capsule(PyObject *capsule) {
    for (int kind = DPF_ARROW_SCHEMA; kind <= DPF_ARROW_STREAM; kind++)
        if (PyCapsule_IsValid(capsule, dpf_arrow_names[kind]))
            dpf_arrow_free(kind, PyCapsule_GetPointer(capsule, dpf_arrow_names[kind]));
}

/* capsule(kind): a new structure of zeros, and so a released one, in its capsule. */
static PyObject *dpf_capsule_call(PyObject *self, PyObject *given) {
    (void)self;
    const long kind = PyLong_AsLong(given);
    if (kind < DPF_ARROW_SCHEMA || kind > DPF_ARROW_STREAM)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no kind of structure: %ld", kind);
    void *const at = dpf_arrow_new((int)kind);
    if (at == NULL)
        return PyErr_NoMemory();
    PyObject *const made = PyCapsule_New(at, dpf_arrow_names[kind], dpf_free_capsule);
    if (made == NULL)
        dpf_arrow_free((int)kind, at);
    return made;
}

void *dpf_capsule(void) {
    static PyMethodDef method = {"capsule", dpf_capsule_call, METH_O, NULL};
    return &method;
}
