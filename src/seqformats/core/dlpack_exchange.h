/* The part of dlpack.h (version 1.2 and later, https://github.com/dmlc/dlpack, Apache-2.0) that is used here: how an
   array is described, and the C exchange API. */
#ifndef SEQFORMATS_DLPACK_EXCHANGE_H
#define SEQFORMATS_DLPACK_EXCHANGE_H
#include <stdint.h>
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
    void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset;
} DLTensor;
typedef struct { uint32_t major, minor; } DLPackVersion;
typedef struct DLManagedTensorVersioned {
    DLPackVersion version; void *manager_ctx; void (*deleter)(struct DLManagedTensorVersioned *); uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;
typedef struct DLPackExchangeAPI {
    DLPackVersion version; struct DLPackExchangeAPI *prev;
    int (*managed_tensor_allocator)(DLTensor *like, DLManagedTensorVersioned **out, void *context,
                                    void (*set_error)(void *, const char *, const char *));
    int (*managed_tensor_from_py_object_no_sync)(void *object, DLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor, void **out);
    int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out);
} DLPackExchangeAPI;
#endif
