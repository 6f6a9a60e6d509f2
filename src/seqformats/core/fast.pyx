# cython: language_level=3, binding=False, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Fast paths: what small batches take, without a step through Python.

Each function here has a twin in Python, which does the same for any batch.  A fast path makes exactly what its twin
would make, or gives None: for another library, a dtype of Python objects, a subclass, a tensor whose graph has to hear
of it, work for several threads, and for every mistake.  Then the twin does it, and says what is wrong.  So there is no
kernel, no rule and no message here, and nothing is raised.

What CPython, NumPy and DLPack promise is used through their headers.  Where the slots of a class are, `slot_of` finds
out; whether that was right, `use_encodings` checks.

Where Python has no GIL (Py_GIL_DISABLED), threads share batches without a lock, since encodings do not change.  What is
filled late is read and filled in a critical section of its object (`order_of`); a list, which another thread may
change, is read as a tuple of what it had; and plans of operations are published when they are complete.  Arrays that
another thread resizes are as unsafe as in NumPy.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_TYPE, Py_XDECREF, PyObject
cimport cython
cimport numpy as cnp
import numpy as np

cdef extern from *:
    """
    #ifdef Py_LIMITED_API                /* there these macros are functions */
    #define PyTuple_GET_SIZE PyTuple_Size
    #define PyTuple_GET_ITEM PyTuple_GetItem
    #define PyTuple_SET_ITEM PyTuple_SetItem
    #endif
    #ifndef SEQFORMATS_SOURCES
    #define SEQFORMATS_SOURCES ""
    #endif
    #ifdef Py_GIL_DISABLED
    #define SEQFORMATS_FREE 1
    #define SEQFORMATS_READ(number) __atomic_load_n(&(number), __ATOMIC_ACQUIRE)
    #define SEQFORMATS_PUBLISH(number, value) __atomic_store_n(&(number), value, __ATOMIC_RELEASE)
    #else
    #define SEQFORMATS_FREE 0
    #define SEQFORMATS_READ(number) (number)
    #define SEQFORMATS_PUBLISH(number, value) ((number) = (value))
    #endif
    """
    const char* SEQFORMATS_SOURCES
    bint FREE_THREADED "SEQFORMATS_FREE"
    int read_count "SEQFORMATS_READ" (int) noexcept                       # what has been published as complete
    void publish_count "SEQFORMATS_PUBLISH" (int, int) noexcept
    PyObject* read_type "SEQFORMATS_READ" (PyObject*) noexcept
    void publish_type "SEQFORMATS_PUBLISH" (PyObject*, PyObject*) noexcept

cdef extern from "Python.h":
    ctypedef struct PyVarObject:
        Py_ssize_t ob_size
    Py_ssize_t PyTuple_GET_SIZE(object) noexcept
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t) noexcept
    void PyTuple_SET_ITEM(object, Py_ssize_t, object) noexcept      # takes the reference
    object PyLong_FromLongLong(int64_t)
    int64_t PyLong_AsLongLongAndOverflow(object, int*) noexcept           # nothing is raised for an int
    int64_t PyLong_AsLongLong(object) except? -1
    double PyFloat_AsDouble(object) except? -1
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    bytes PyBytes_FromStringAndSize(char*, Py_ssize_t)
    char* PyBytes_AsString(object) noexcept
    int PyList_CheckExact(object) noexcept
    PyObject* PyList_GET_ITEM "PyList_GetItem" (object, Py_ssize_t) noexcept
    Py_ssize_t PyList_GET_SIZE "PyList_Size" (object) noexcept
    PyObject* PyObject_CallFunctionObjArgs(object, ...) noexcept           # arguments, and NULL behind them
    Py_ssize_t PyObject_Size(object) noexcept
    int PyObject_GenericSetAttr(object, object, object) except -1
    int PyTuple_CheckExact(object) noexcept
    int PyTuple_Check(object) noexcept
    int PyLong_CheckExact(object) noexcept
    int PySlice_Check(object) noexcept
    int PySlice_Unpack(object, Py_ssize_t*, Py_ssize_t*, Py_ssize_t*) noexcept
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t, Py_ssize_t*, Py_ssize_t*, Py_ssize_t) noexcept

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr
    # takes the reference to the dtype
    object PyArray_NewFromDescr(PyTypeObject*, cnp.dtype, int, cnp.npy_intp*, cnp.npy_intp*, void*, int, PyObject*)
    void PyArray_CLEARFLAGS(cnp.ndarray, int) noexcept
    int PyDataType_REFCHK(PyArray_Descr*) noexcept

cnp.import_array()

SOURCES = (<bytes>SEQFORMATS_SOURCES).decode()
"""A digest of the files that this was compiled from; see `build`."""

cdef bint is_on = True


def switch(bint on):
    """Let callers in, or nobody: then everything gives None."""
    global is_on
    is_on = on


include "kernels.pxi"
include "arrays.pxi"
include "tensors.pxi"
include "encodings.pxi"
include "construct.pxi"
include "convert.pxi"
include "calculate.pxi"
include "spread.pxi"
include "pick.pxi"
include "join.pxi"
include "bags.pxi"
include "items.pxi"
include "primitives.pxi"
include "lists.pxi"
