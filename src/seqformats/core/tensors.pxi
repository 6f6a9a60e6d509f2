# Tensors of PyTorch on the host, by what it documents: DLPack's C exchange API, and some attributes.  What it does not
# promise (the number of active modes, transformations) is looked for in `use_torch`; where it is absent, tensors are
# for Python alone.

cdef DLPackExchangeAPI* _torch = NULL
cdef PyObject* _tensor_type = NULL
cdef PyObject* _parameter_type = NULL
cdef PyObject* _torch_int64 = NULL
cdef PyTypeObject* _size_type = NULL
cdef list _dtypes = []                   # of torch, in the order of `_kinds`
cdef DLDataType _kinds[32]
cdef int _numbers[32]                    # of the same dtypes in NumPy, bool as uint8; -1 for those that it has not
cdef object _modes = None                # how many modes in Python are active
cdef object _transforms = None           # are transformations of functions active?
cdef object _grad_is_on = None
cdef object _forward_ad = None           # the module, whose `_current_level` is -1 outside of forward mode
cdef object _is_neg = None
cdef object _storage = None              # methods of tensors: the storage, and how many items before them are in it
cdef object _items_before = None
cdef object _filled = None               # a copy with a number at places that are marked
cdef object _chosen_items = None         # items of one tensor where a mask is true, else of another
cdef list _kept = []                     # what is borrowed above

_KINDS = {
    "bool": (6, 8), "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    "float8_e4m3fn": (10, 8), "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8),
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)}, **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
}
"""Codes and bits of dtypes in DLPack.  Complex ones are left out, which may be conjugated."""


def use_torch(torch):
    """Let tensors on the host in; False where this version of PyTorch lacks what that takes."""
    global _torch, _tensor_type, _parameter_type, _torch_int64, _size_type
    global _modes, _transforms, _grad_is_on, _forward_ad, _is_neg, _storage, _items_before, _filled, _chosen_items
    try:
        capsule = torch.Tensor.__dlpack_c_exchange_api__
        _modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active
        _grad_is_on, _forward_ad, _is_neg = torch.is_grad_enabled, torch.autograd.forward_ad, torch.Tensor.is_neg
        _storage, _items_before = torch.Tensor.untyped_storage, torch.Tensor.storage_offset
        _filled, _chosen_items = torch.Tensor.masked_fill, torch.where
        _modes(), _transforms(), _forward_ad._current_level
    except AttributeError:
        return False
    cdef DLPackExchangeAPI* api = <DLPackExchangeAPI*>PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
    if api == NULL or api.version.major != 1 or api.dltensor_from_py_object_no_sync == NULL:
        return False
    if api.managed_tensor_allocator == NULL or api.managed_tensor_to_py_object_no_sync == NULL:
        return False
    for name, (code, bits) in _KINDS.items():
        dtype = getattr(torch, name, None)
        if dtype is not None:
            _kinds[len(_dtypes)] = DLDataType(code, bits, 1)
            _numbers[len(_dtypes)] = np.dtype("uint8" if code == 6 else name).num if code in (0, 1, 2, 6) else -1
            _dtypes.append(dtype)
    _kept.extend((torch.Tensor, torch.nn.Parameter, torch.Size, torch.int64))
    _torch_int64, _size_type = <PyObject*>torch.int64, <PyTypeObject*>torch.Size
    _torch, _parameter_type = api, <PyObject*>torch.nn.Parameter
    publish_type(_tensor_type, <PyObject*>torch.Tensor)                  # last: whoever meets one now has all the rest
    return True


def is_plain(x):
    """True for a plain contiguous array or tensor, whose memory is there; None for others."""
    cdef Array a
    return True if is_on and look_anywhere(x, &a, True, True) and (not a.tensor or torch_is_quiet()) else None


def asks_nothing(x):
    """True where an array, a batch in one array or a tuple of such asks for no gradient; None for Python to find out."""
    return True if is_on and asks_none(x) and (_torch == NULL or torch_is_quiet()) else None


def address_of(x, shape, dtype):
    """The address of a plain tensor on any device, of this shape and dtype, all of whose items are in memory.

    None for others, and where somebody wants to hear of what is done with it.
    """
    cdef Array a
    cdef int k
    if not is_on or not is_tensor(x, True) or not PyTuple_Check(shape) or not look_at_tensor(x, &a, False, True):
        return None
    if a.dtype != <PyObject*>dtype or a.ndim != PyTuple_GET_SIZE(shape) or not torch_is_quiet():
        return None
    for k in range(a.ndim):
        if PyLong_AsLongLong(<object>PyTuple_GET_ITEM(shape, k)) != a.shape[k]:
            return None
    return PyLong_FromLongLong(<int64_t>a.data)


cdef bint asks_none(object x) except -1:
    cdef Kind kind
    if cnp.PyArray_CheckExact(x):
        return True
    if is_tensor(x, True):
        return x.requires_grad is False or not _grad_is_on()
    if PyTuple_CheckExact(x):
        for part in <tuple>x:
            if not asks_none(part):
                return False
        return True
    kind = kind_of(x)
    return kind is not None and kind.number != LIST and asks_none(get(x, kind.data))


def knows_dtype(dtype):
    """Is there one object of this dtype, for ever, and are its bytes all there is to an item?"""
    if not isinstance(dtype, np.dtype):
        return dtype in _dtypes
    return dtype.isbuiltin == 1 and not dtype.hasobject and dtype.itemsize > 0 and np.dtype(dtype.char) is dtype


cdef inline bint is_tensor(object x, bint in_graph) noexcept:
    cdef PyObject* kind = <PyObject*>Py_TYPE(x)
    cdef PyObject* tensor = read_type(_tensor_type)
    return tensor != NULL and (kind == tensor or (in_graph and kind == _parameter_type))


cdef bint torch_is_quiet() except -1:
    """Does nobody in this thread want to hear of what is done with tensors: no mode, no transformation of functions?"""
    cdef Py_ssize_t modes = _modes(), level = _forward_ad._current_level
    return modes == 0 and level < 0 and _transforms() is False


cdef bint look_at_tensor(object x, Array* a, bint in_graph, bint adopted) except -1:
    """`look` for a tensor."""
    cdef DLTensor t
    cdef int64_t items = 1
    cdef int k
    if not in_graph and x.requires_grad is not False and _grad_is_on():
        return False
    if _torch.dltensor_from_py_object_no_sync(<void*>x, &t):
        PyErr_Clear()
        return False
    if t.device.device_type not in (CPU, CUDA, ROCM) or t.ndim > MOST_AXES or (not adopted and is_negative(x)):
        return False
    for k in range(t.ndim - 1, -1, -1):
        if t.strides != NULL and t.shape[k] != 1 and t.strides[k] != items:
            return False
        items *= t.shape[k]
    k = number_of_kind(&t.dtype)
    if k < 0 or (items and (t.data == NULL or not is_in_storage(x, items, t.dtype.bits >> 3))):
        return False
    a.device = t.device
    a.tensor, a.ndim, a.data, a.itemsize = True, t.ndim, <char*>t.data + t.byte_offset, t.dtype.bits >> 3
    if t.ndim:
        memcpy(a.shape, t.shape, t.ndim * sizeof(int64_t))
    a.dtype, a.kind = PyList_GET_ITEM(_dtypes, k), t.dtype
    return True


cdef bint is_negative(object x) noexcept:
    """Are its items the negative of what is in memory?  True also where it does not say."""
    cdef PyObject* found = PyObject_CallFunctionObjArgs(_is_neg, <void*>x, NULL)
    cdef bint is_not = found != NULL and <object>found is False
    if found == NULL:
        PyErr_Clear()
    Py_XDECREF(found)
    return not is_not


cdef bint is_in_storage(object x, int64_t items, int64_t itemsize) noexcept:
    """Has the storage of a tensor all of its items?  Somebody may have made it smaller."""
    cdef int64_t size = -1, before = -1
    cdef PyObject* storage = PyObject_CallFunctionObjArgs(_storage, <void*>x, NULL)
    cdef PyObject* offset = PyObject_CallFunctionObjArgs(_items_before, <void*>x, NULL)
    if storage != NULL and offset != NULL and whole(<object>offset, &before):
        size = PyObject_Size(<object>storage)
    Py_XDECREF(storage)
    Py_XDECREF(offset)
    if size < 0:
        PyErr_Clear()
    return 0 <= before <= size // itemsize - items


cdef int number_of_kind(DLDataType* kind) noexcept:
    """The place of a dtype in `_dtypes`, -1 where it is not there."""
    cdef int k
    for k in range(<int>PyList_GET_SIZE(_dtypes)):
        if _kinds[k].code == kind.code and _kinds[k].bits == kind.bits and kind.lanes == 1:
            return k
    return -1


cdef object new_tensor(DLDataType kind, int ndim, int64_t* shape, char** data):
    """A new tensor on the host."""
    cdef DLTensor wanted
    cdef DLManagedTensorVersioned* managed = NULL
    cdef void* found = NULL
    wanted.data, wanted.ndim, wanted.shape, wanted.strides, wanted.byte_offset = NULL, ndim, shape, NULL, 0
    wanted.device.device_type, wanted.device.device_id, wanted.dtype = CPU, 0, kind
    if _torch.managed_tensor_allocator(&wanted, &managed, NULL, ignore_error):
        PyErr_Clear()
        raise MemoryError
    data[0] = <char*>managed.dl_tensor.data + managed.dl_tensor.byte_offset
    if _torch.managed_tensor_to_py_object_no_sync(managed, &found):
        PyErr_Clear()
        raise MemoryError
    made = <object>found
    Py_DECREF(made)                      # `found` was a new reference
    return made


cdef void ignore_error(void* context, const char* kind, const char* message) noexcept:
    pass
