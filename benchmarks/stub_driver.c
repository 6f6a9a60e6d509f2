/* A driver of CUDA that has one GPU and answers at once, to time what the host does: nothing is ever run.

   Memory of the device is memory of the host, copies are made where they are asked for, and kernels are counted.  The
   functions that seqformats asks for by name are exported; cuGetProcAddress, by which the Python packages of CUDA find
   theirs, gives those and for all others one that says that all is well. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef int Result;
typedef uint64_t Address;

enum { DEVICE = 0, GIB = 30, CAPTURE_RELAXED = 2 };

static long launches;
static uintptr_t last = 0x100000;
static void *const context = (void *)0x1000, *const pool = (void *)0x2000;
static __thread void *current;
static __thread void *stack[64];
static __thread int depth;

/* A handle that nobody looks into. */
static void *handle(void) { return (void *)(last += 0x100); }

static Result well(void) { return 0; }

/* --- devices --- */

EXPORT Result cuInit(unsigned flags) { return (void)flags, 0; }

EXPORT Result cuDriverGetVersion(int *version) { return *version = 13000, 0; }

EXPORT Result cuDeviceGetCount(int *count) { return *count = 1, 0; }

EXPORT Result cuDeviceGet(int *device, int index) { return *device = index, 0; }

EXPORT Result cuDeviceGetName(char *name, int room, int device) {
  (void)device;
  strncpy(name, "stand-in", room);
  return 0;
}

static Result cuDeviceGetUuid(char *uuid, int device) { return (void)device, memset(uuid, 7, 16), 0; }

static Result cuDeviceTotalMem(size_t *size, int device) { return (void)device, *size = (size_t)80 << GIB, 0; }

EXPORT Result cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  switch (which) {
    case 1: case 2: case 3: *value = 1024; break; /* threads a block */
    case 4: *value = 64; break;
    case 5: *value = 2147483647; break; /* blocks */
    case 6: case 7: *value = 65535; break;
    case 8: *value = 49152; break; /* shared memory */
    case 10: *value = 32; break; /* threads a warp */
    case 16: *value = 132; break; /* multiprocessors */
    case 39: *value = 2048; break;
    case 75: *value = 9; break; /* compute capability */
    case 76: *value = 0; break;
    default: *value = 1;
  }
  return 0;
}

/* --- contexts --- */

EXPORT Result cuDevicePrimaryCtxRetain(void **found, int device) { return (void)device, *found = context, 0; }

static Result cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  return (void)device, *flags = 0, *active = 1, 0;
}

static Result cuCtxGetCurrent(void **found) { return *found = current, 0; }

static Result cuCtxSetCurrent(void *given) { return current = given, 0; }

EXPORT Result cuCtxGetDevice(int *device) { return *device = DEVICE, current ? 0 : 201; }

static Result cuCtxGetId(void *given, uint64_t *id) { return (void)given, *id = 1, 0; }

static Result cuCtxGetApiVersion(void *given, unsigned *version) { return (void)given, *version = 13000, 0; }

EXPORT Result cuCtxPushCurrent_v2(void *given) {
  stack[depth++ & 63] = current;
  current = given;
  return 0;
}

EXPORT Result cuCtxPopCurrent_v2(void **found) {
  if (found) *found = current;
  current = depth ? stack[--depth & 63] : NULL;
  return 0;
}

/* --- code --- */

EXPORT Result cuLibraryLoadData(void **found) { return *found = handle(), 0; }

EXPORT Result cuLibraryGetKernel(void **found) { return *found = handle(), 0; }

EXPORT Result cuKernelGetFunction(void **found) { return *found = handle(), 0; }

static Result cuFuncGetAttribute(int *value, int which) { return *value = which ? 0 : 1024, 0; }

EXPORT Result cuLaunchKernel(void) { return launches++, 0; }

static Result cuLaunchKernelEx(void) { return launches++, 0; }

/* How many kernels were started, for who measures. */
EXPORT long stub_launches(void) { return launches; }

/* --- streams and events --- */

EXPORT Result cuStreamIsCapturing(void *stream, int *mode) { return (void)stream, *mode = 0, 0; }

EXPORT Result cuStreamSynchronize(void *stream) { return (void)stream, 0; }

EXPORT Result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  return (void)stream, (void)event, (void)flags, 0;
}

EXPORT Result cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = CAPTURE_RELAXED, 0; }

static Result cuStreamCreate(void **found) { return *found = handle(), 0; }

static Result cuStreamGetCtx(void *stream, void **found) { return (void)stream, *found = context, 0; }

EXPORT Result cuEventCreate(void **found, unsigned flags) { return (void)flags, *found = handle(), 0; }

EXPORT Result cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }

EXPORT Result cuEventQuery(void *event) { return (void)event, 0; }

EXPORT Result cuEventSynchronize(void *event) { return (void)event, 0; }

EXPORT Result cuEventDestroy_v2(void *event) { return (void)event, 0; }

/* --- memory: zeros, so that what no kernel has written is not taken for a result --- */

static void *room(size_t size) {
  size_t whole = (size + 4095) / 4096 * 4096;
  void *found = aligned_alloc(4096, whole ? whole : 4096);
  return found ? memset(found, 0, size) : NULL;
}

static Result cuMemAlloc(Address *found, size_t size) { return *found = (Address)room(size), *found ? 0 : 2; }

EXPORT Result cuMemAllocAsync(Address *found, size_t size, void *stream) { return (void)stream, cuMemAlloc(found, size); }

static Result cuMemFree(Address given) { return free((void *)given), 0; }

EXPORT Result cuMemFreeAsync(Address given, void *stream) { return (void)stream, cuMemFree(given); }

EXPORT Result cuMemHostAlloc(void **found, size_t size, unsigned flags) {
  return (void)flags, *found = room(size), *found ? 0 : 2;
}

static Result cuMemAllocHost(void **found, size_t size) { return cuMemHostAlloc(found, size, 0); }

static Result cuMemFreeHost(void *given) { return free(given), 0; }

static Result cuMemGetInfo(size_t *left, size_t *all) { return *left = *all = (size_t)80 << GIB, 0; }

static Result cuMemcpyHtoD(Address to, const void *from, size_t size) { return memcpy((void *)to, from, size), 0; }

EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t size, void *stream) {
  return (void)stream, cuMemcpyHtoD(to, from, size);
}

EXPORT Result cuMemcpyDtoH_v2(void *to, Address from, size_t size) { return memcpy(to, (void *)from, size), 0; }

static Result cuMemcpyDtoD(Address to, Address from, size_t size) { return memcpy((void *)to, (void *)from, size), 0; }

EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t size, void *stream) {
  return (void)stream, memset((void *)to, value, size), 0;
}

static Result cuPointerGetAttribute(void *found, int which, Address given) {
  switch (which) {
    case 1: *(void **)found = context; break;
    case 2: *(int *)found = 2; break; /* memory of a device */
    case 3: case 4: *(Address *)found = given; break;
    default: *(int *)found = 0;
  }
  return 0;
}

static Result cuPointerGetAttributes(unsigned count, const int *which, void **found, Address given) {
  for (unsigned k = 0; k < count; k++) cuPointerGetAttribute(found[k], which[k], given);
  return 0;
}

static Result cuDeviceGetMemPool(void **found, int device) { return (void)device, *found = pool, 0; }

/* --- errors --- */

EXPORT Result cuGetErrorName(int error, const char **text) { return (void)error, *text = "CUDA_ERROR", 0; }

EXPORT Result cuGetErrorString(int error, const char **text) { return (void)error, *text = "an error", 0; }

/* --- by name --- */

EXPORT Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status);

EXPORT Result cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, found, version, flags, NULL);
}

#define AS(name, function) {name, (void *)function}
#define IS(function) AS(#function, function)

static const struct { const char *name; void *function; } known[] = {
  AS("cuCtxPopCurrent", cuCtxPopCurrent_v2), AS("cuCtxPushCurrent", cuCtxPushCurrent_v2),
  AS("cuEventDestroy", cuEventDestroy_v2), AS("cuFuncSetAttribute", well),
  AS("cuGetProcAddress", cuGetProcAddress_v2), AS("cuMemcpyAsync", cuMemcpyDtoD),
  AS("cuMemcpyDtoDAsync", cuMemcpyDtoD), AS("cuMemcpyDtoHAsync", cuMemcpyDtoH_v2),
  AS("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2), AS("cuModuleLoadData", cuLibraryLoadData),
  AS("cuModuleLoadDataEx", cuLibraryLoadData), AS("cuModuleGetFunction", cuLibraryGetKernel),
  AS("cuLibraryGetModule", cuKernelGetFunction), AS("cuKernelGetLibrary", cuKernelGetFunction),
  AS("cuFuncGetModule", cuKernelGetFunction), AS("cuKernelGetAttribute", cuFuncGetAttribute),
  AS("cuStreamCreateWithPriority", cuStreamCreate), AS("cuMemsetD8", cuMemsetD8Async),
  AS("cuDeviceGetDefaultMemPool", cuDeviceGetMemPool), AS("cuStreamGetDevice", cuCtxGetDevice),
  IS(cuCtxGetApiVersion), IS(cuCtxGetCurrent), IS(cuCtxGetDevice), IS(cuCtxGetId), IS(cuCtxSetCurrent),
  IS(cuDeviceGet), IS(cuDeviceGetAttribute), IS(cuDeviceGetCount), IS(cuDeviceGetMemPool), IS(cuDeviceGetName),
  IS(cuDeviceGetUuid), IS(cuDevicePrimaryCtxGetState), IS(cuDevicePrimaryCtxRetain), IS(cuDeviceTotalMem),
  IS(cuDriverGetVersion), IS(cuEventCreate), IS(cuFuncGetAttribute), IS(cuGetErrorName), IS(cuGetErrorString),
  IS(cuKernelGetFunction), IS(cuLaunchKernel), IS(cuLaunchKernelEx), IS(cuLibraryGetKernel), IS(cuLibraryLoadData),
  IS(cuMemAlloc), IS(cuMemAllocAsync), IS(cuMemAllocHost), IS(cuMemFree), IS(cuMemFreeAsync), IS(cuMemFreeHost),
  IS(cuMemGetInfo), IS(cuMemHostAlloc), IS(cuMemcpyDtoD), AS("cuMemcpyDtoH", cuMemcpyDtoH_v2), IS(cuMemcpyHtoD), IS(cuMemsetD8Async),
  IS(cuPointerGetAttribute), IS(cuPointerGetAttributes), IS(cuStreamCreate), IS(cuStreamGetCtx),
  IS(cuStreamIsCapturing),
};

EXPORT Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
  (void)version, (void)flags;
  if (status) *status = 0;
  size_t length = strlen(name);
  if (length > 3 && !strncmp(name + length - 3, "_v", 2)) length -= 3;
  *found = (void *)well;
  for (size_t k = 0; k < sizeof known / sizeof *known; k++)
    if (strlen(known[k].name) == length && !strncmp(known[k].name, name, length)) *found = known[k].function;
  return 0;
}
