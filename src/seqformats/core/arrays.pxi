# One description of an array, for NumPy's and for tensors on the host, and new arrays of both.

cdef extern from "dlpack_exchange.h":
    ctypedef struct DLDevice:
        int32_t device_type, device_id
    ctypedef struct DLDataType:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct DLTensor:
        void* data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct DLManagedTensorVersioned:
        DLTensor dl_tensor
    ctypedef struct DLPackVersion:
        uint32_t major
    ctypedef struct DLPackExchangeAPI:
        DLPackVersion version
        int (*managed_tensor_allocator)(DLTensor*, DLManagedTensorVersioned**, void*,
                                        void (*)(void*, const char*, const char*) noexcept) noexcept
        int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned*, void**) noexcept
        int (*dltensor_from_py_object_no_sync)(void*, DLTensor*) noexcept

cdef enum:
    MOST_AXES = 32
    CPU = 1                              # DLPack's kDLCPU, kDLCUDA, kDLROCM
    CUDA = 2
    ROCM = 10

cdef struct Array:
    char* data
    int ndim
    int64_t shape[MOST_AXES]
    int64_t itemsize
    PyObject* dtype                      # borrowed; a dtype of NumPy or of the tensor's library
    bint tensor
    DLDevice device
    DLDataType kind                      # of a tensor: its dtype, as DLPack has it

cdef cnp.dtype _int64 = np.dtype(np.int64)


cdef bint look(object x, Array* a, bint in_graph, bint adopted) except -1:
    """Describe a plain contiguous array on the host; False for anything else."""
    return look_anywhere(x, a, in_graph, adopted) and a.device.device_type == CPU


cdef bint look_anywhere(object x, Array* a, bint in_graph, bint adopted) except -1:
    """Describe a plain contiguous array on any device; False for anything else.

    A tensor that wants a gradient is plain only if `in_graph`: for what reads no item.  What an encoding holds is
    `adopted`, and needs not be asked all questions again.  Who has met a tensor asks `torch_is_quiet` once.
    """
    cdef cnp.ndarray array
    if cnp.PyArray_CheckExact(x):
        array = <cnp.ndarray>x
        if not cnp.PyArray_ISCARRAY_RO(array) or cnp.PyArray_NDIM(array) > MOST_AXES:
            return False
        a.tensor, a.device.device_type, a.device.device_id = False, CPU, 0
        a.data = cnp.PyArray_BYTES(array)
        a.ndim = cnp.PyArray_NDIM(array)
        if a.ndim:                       # else there are no lengths of axes, nor an address for memcpy
            memcpy(a.shape, cnp.PyArray_DIMS(array), a.ndim * sizeof(int64_t))
        a.dtype = <PyObject*>cnp.PyArray_DESCR(array)
        a.itemsize = cnp.PyArray_ITEMSIZE(array)
        return a.itemsize != 0 and not PyDataType_REFCHK(<PyArray_Descr*>a.dtype)
    return is_tensor(x, in_graph) and look_at_tensor(x, a, in_graph, adopted)


cdef object new_array(bint tensor, PyObject* dtype, DLDataType kind, int ndim, int64_t* shape, char** data):
    """A new array of NumPy's, or a tensor; `data` gets its address."""
    if tensor:
        return new_tensor(kind, ndim, shape, data)
    Py_INCREF(<object>dtype)             # which NumPy takes
    made = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, <cnp.dtype>dtype, ndim, <cnp.npy_intp*>shape, NULL, NULL, 0,
                                NULL)
    data[0] = cnp.PyArray_BYTES(<cnp.ndarray>made)
    return made


cdef object new_like(Array* like, int ndim, int64_t* shape, char** data):
    """Make an array of the library and dtype of another."""
    return new_array(like.tensor, like.dtype, like.kind, ndim, shape, data)


cdef bytes integers(int64_t count):
    """Memory for so many int64, to be written before a `view` of it is made, and never after.

    It is less work than an array, and no view of it can be made writable again.
    """
    return PyBytes_FromStringAndSize(NULL, count * sizeof(int64_t))


cdef inline int64_t* numbers_of(bytes block) noexcept:
    return <int64_t*>PyBytes_AsString(block)


cdef object view(bytes block, int64_t first, int64_t count):
    """A read-only view of some of them."""
    return numbers_at(block, numbers_of(block) + first, count)


cdef object numbers_at(object owner, int64_t* first, int64_t count):
    """View so many int64 at an address, in memory of another object, to be read."""
    Py_INCREF(_int64)                    # which NumPy takes
    made = PyArray_NewFromDescr(<PyTypeObject*>cnp.ndarray, _int64, 1, <cnp.npy_intp*>&count, NULL, first,
                                cnp.NPY_ARRAY_CARRAY_RO, NULL)
    cnp.set_array_base(made, owner)
    return made


cdef object shape_of(bint tensor, int ndim, int64_t* shape):
    """A shape as its library has it: a tuple, or for tensors the subclass that PyTorch has."""
    cdef int k
    made = PyType_GenericAlloc(_size_type if tensor else <PyTypeObject*>tuple, ndim)
    for k in range(ndim):
        length = PyLong_FromLongLong(shape[k])
        Py_INCREF(length)                # which the tuple takes
        PyTuple_SET_ITEM(made, k, length)
    return made


cdef bint is_int64(Array* a) noexcept:
    return a.dtype == (_torch_int64 if a.tensor else <PyObject*>_int64)


cdef int64_t row_of(Array* a, int lead) noexcept:
    """The bytes of a row, of all axes after the first `lead`."""
    cdef int64_t row = a.itemsize
    cdef int k
    for k in range(lead, a.ndim):
        row *= a.shape[k]
    return row


cdef inline bint whole(object given, int64_t* number) noexcept:
    """Is it an int of at most 64 bits?"""
    cdef int beyond = 0
    if not PyLong_CheckExact(given):
        return False
    number[0] = PyLong_AsLongLongAndOverflow(given, &beyond)
    return beyond == 0


cdef bint numbers_in(object given, int64_t* numbers, int64_t count) noexcept:
    """Write the ints of a tuple one after the other; False where there is something else among them."""
    cdef int64_t k
    for k in range(count):
        if not whole(<object>PyTuple_GET_ITEM(given, k), &numbers[k]):
            return False
    return True
