"""XLA's FFI call frames, built by hand: calls a native handler with no XLA around it.

The layouts are those of XLA's `c_api.h`, API 0.2. Every object that a frame points to is kept alive by the frame.
"""

import ctypes
import itertools
import shutil
import threading
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p, cast

from jaxwarp.launches.image import sealed

INSTANTIATE, INITIALIZE, EXECUTE = 0, 2, 3
BYTES_OF = {"float32": (11, 4), "int32": (4, 4), "int64": (5, 8), "float64": (12, 8), "int8": (2, 1), "bool": (1, 1)}
BYTES_OF |= {"int16": (3, 2), "uint8": (6, 1), "uint16": (7, 2), "uint32": (8, 4), "uint64": (9, 8)}
STREAM = 0xABC0


def struct(title, /, **fields):
    return type(title, (ctypes.Structure,), {"_fields_": list(fields.items())})


Base = {"struct_size": c_size_t, "extension": c_void_p}
ByteSpan = struct("ByteSpan", pointer=c_char_p, length=c_size_t)
Scalar = struct("Scalar", dtype=c_int, value=c_void_p)
Array = struct("Array", dtype=c_int, size=c_size_t, data=c_void_p)
Buffer = struct("Buffer", **Base, dtype=c_int, data=c_void_p, rank=c_int64, dims=POINTER(c_int64))
Items = struct("Items", **Base, size=c_int64, types=POINTER(c_int), items=POINTER(c_void_p))
Attrs = struct(
    "Attrs", **Base, size=c_int64, types=POINTER(c_int), names=POINTER(POINTER(ByteSpan)), attrs=POINTER(c_void_p)
)
Version = struct("Version", **Base, major=c_int, minor=c_int)
CallFrame = struct(
    "CallFrame",
    **Base,
    api=c_void_p,
    context=c_void_p,
    stage=c_int,
    args=Items,
    rets=Items,
    attrs=Attrs,
    future=c_void_p,
)
Metadata = struct("Metadata", struct_size=c_size_t, version=Version, traits=c_uint32, state_type=c_int64)
MetadataExtension = struct(
    "MetadataExtension", struct_size=c_size_t, type=c_int, next=c_void_p, metadata=POINTER(Metadata)
)
ErrorCreate = struct("ErrorCreate", **Base, message=c_char_p, code=c_int)
ErrorDestroy = struct("ErrorDestroy", **Base, error=c_void_p)
TypeRegister = struct(
    "TypeRegister",
    **Base,
    name=ByteSpan,
    type_id=POINTER(c_int64),
    info=POINTER(struct("Info", **Base, deleter=c_void_p)),
)
State = struct("State", **Base, context=c_void_p, type_id=c_void_p, state=c_void_p)
StagedState = struct("StagedState", **Base, context=c_void_p, stage=c_int, type_id=c_void_p, state=c_void_p)
StreamGet = struct("StreamGet", **Base, context=c_void_p, stream=c_void_p)
DeviceGet = struct("DeviceGet", **Base, context=c_void_p, ordinal=c_int32)
Schedule = struct("Schedule", **Base, context=c_void_p, task=CFUNCTYPE(None, c_void_p), data=c_void_p)
NumThreads = struct("NumThreads", **Base, context=c_void_p, threads=POINTER(c_int64))

API = [
    "error_create",
    "error_get_message",
    "error_destroy",
    "handler_register",
    "stream_get",
    "type_register",
    "context_get",
    "state_set",
    "state_get",
    "memory_allocate",
    "memory_free",
    "schedule",
    "num_threads",
    "future_create",
    "future_set",
    "future_fail",
    "run_id",
    "device_get",
]
ARGUMENTS = {
    "error_create": ErrorCreate,
    "error_destroy": ErrorDestroy,
    "stream_get": StreamGet,
    "type_register": TypeRegister,
    "state_set": State,
    "state_get": State,
    "schedule": Schedule,
    "num_threads": NumThreads,
    "device_get": DeviceGet,
}


class Refused(Exception):
    """The error a handler returned; the message is its text."""


def items(kind, addresses):
    array = (c_void_p * len(addresses))(*addresses)
    types = (c_int * len(addresses))(*[kind] * len(addresses))
    made = Items(ctypes.sizeof(Items), None, len(addresses), types, array)
    made.alive = array, types
    return made


class Runtime:
    """A stand-in for XLA around a private copy of the native library.

    Args:
        library: path of the native library.
        copy: where to put the copy; its globals (loader, counters, loaded images) are then its own.
        threads: what the thread pool says its size is.
        pool: "threads" runs every task on a new thread, "lazy" keeps tasks in `waiting` and never runs them,
            "refuse" refuses them.
    """

    def __init__(self, library, copy, threads=4, pool="threads"):
        shutil.copy(library, copy)
        self.library = ctypes.CDLL(str(copy))
        self.library.jaxwarp_counter.restype = c_int64
        self.threads, self.pool, self.device, self.stream = threads, pool, 0, STREAM
        self.seals = True
        self.errors, self.states, self.waiting, self.running = {}, {}, [], []
        self.type_ids, self.deleters, self.numbers = {}, {}, itertools.count(1)
        functions, self.alive = [], []
        for name in API:
            argument = ARGUMENTS.get(name)
            if argument is None:
                functions.append(None)
                continue
            function = CFUNCTYPE(c_void_p, POINTER(argument))(self._entry(name))
            self.alive.append(function)
            functions.append(cast(function, c_void_p))
        size = 16 + ctypes.sizeof(Version) + 8
        table = (c_void_p * (size // 8 + len(API)))()
        table[0] = size + 8 * len(API)
        for i, function in enumerate(functions):
            table[size // 8 + i] = function
        self.table = table

    def _entry(self, name):
        method = getattr(self, "_" + name)

        def entry(arguments):
            return method(arguments.contents)

        return entry

    def _new_error(self, message):
        number = next(self.numbers)
        self.errors[number] = message
        return number

    def _error_create(self, a):
        return self._new_error(a.message.decode(errors="replace"))

    def _error_destroy(self, a):
        del self.errors[a.error]

    def _stream_get(self, a):
        a.stream = self.stream

    def _device_get(self, a):
        a.ordinal = self.device

    def _num_threads(self, a):
        a.threads[0] = self.threads

    def _schedule(self, a):
        if self.pool == "refuse":
            return self._new_error("no pool")
        task, data = a.task, a.data
        if self.pool == "lazy":
            self.waiting.append((CFUNCTYPE(None, c_void_p)(cast(task, c_void_p).value), data))
            return None
        thread = threading.Thread(target=CFUNCTYPE(None, c_void_p)(cast(task, c_void_p).value), args=(data,))
        self.running.append(thread)
        thread.start()
        return None

    def _type_register(self, a):
        name = ctypes.string_at(a.name.pointer, a.name.length).decode()
        a.type_id[0] = self.type_ids[name] = next(self.numbers)
        self.deleters[a.type_id[0]] = CFUNCTYPE(None, c_void_p)(a.info.contents.deleter)

    def _staged(self, a):
        # Headers from API 0.3 on have the stage in these structs.
        return a if a.struct_size == ctypes.sizeof(State) else cast(byref(a), POINTER(StagedState)).contents

    def _state_set(self, a):
        staged = self._staged(a)
        self.states[a.context] = staged.state, cast(staged.type_id, POINTER(c_int64))[0]

    def _state_get(self, a):
        self._staged(a).state, kind = self.states[a.context]
        assert cast(self._staged(a).type_id, POINTER(c_int64))[0] == kind

    def handler(self, name):
        function = getattr(self.library, f"jaxwarp_{name}")
        function.restype = c_void_p
        return function

    def counter(self, name):
        return self.library.jaxwarp_counter(name.encode())

    def metadata(self, name):
        """What the handler answers when XLA asks for its traits at registration."""
        metadata = Metadata(ctypes.sizeof(Metadata))
        extension = MetadataExtension(24, 1, None, ctypes.pointer(metadata))
        frame = CallFrame(ctypes.sizeof(CallFrame), cast(ctypes.pointer(extension), c_void_p))
        frame.api = cast(self.table, c_void_p)
        self._check(self.handler(name)(byref(frame)))
        return metadata

    def call(self, name, stage, context, attributes=(), operands=(), results=()):
        """Calls a handler, at instantiation with the seal of the attributes where they have none.

        Buffers are (dtype, shape, address).
        """
        if stage == INSTANTIATE and self.seals:
            attributes = {**sealed(attributes), **attributes}
        alive = []
        frame = CallFrame(ctypes.sizeof(CallFrame), None, cast(self.table, c_void_p), context, stage)
        frame.attrs = _attributes(dict(attributes), alive)
        frame.args, frame.rets = _buffers(operands, alive), _buffers(results, alive)
        self._check(self.handler(name)(byref(frame)))
        for thread in self.running:
            thread.join()
        self.running.clear()

    def destroy(self, context):
        state, kind = self.states.pop(context)
        self.deleters[kind](state)

    def _check(self, error):
        if error:
            raise Refused(self.errors.pop(error))


def _attributes(values, alive):
    types, names, pointers = [], [], []
    for name in sorted(values):
        kind, attr = _attribute(values[name], alive)
        span = ByteSpan(name.encode(), len(name))
        alive += [attr, span]
        types.append(kind)
        names.append(ctypes.pointer(span))
        pointers.append(ctypes.addressof(attr))
    count = len(types)
    arrays = (c_int * count)(*types), (POINTER(ByteSpan) * count)(*names), (c_void_p * count)(*pointers)
    alive += arrays
    return Attrs(ctypes.sizeof(Attrs), None, count, *arrays)


def _attribute(value, alive):
    """Bytes are a string, an int is a scalar, a list of ints an array; floats make attributes of a wrong type."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        data = ctypes.create_string_buffer(value, len(value))
        alive.append(data)
        return 4, ByteSpan(cast(data, c_char_p), len(value))
    if isinstance(value, list):
        is_float = any(isinstance(entry, float) for entry in value)
        data = ((ctypes.c_double if is_float else c_int64) * len(value))(*value)
        alive.append(data)
        return 1, Array(12 if is_float else 5, len(value), cast(data, c_void_p))
    data = ctypes.c_double(value) if isinstance(value, float) else c_int64(value)
    alive.append(data)
    return 3, Scalar(12 if isinstance(value, float) else 5, cast(ctypes.pointer(data), c_void_p))


def _buffers(buffers, alive):
    addresses = []
    for dtype, shape, address in buffers:
        dims = (c_int64 * len(shape))(*shape)
        buffer = Buffer(ctypes.sizeof(Buffer), None, BYTES_OF[dtype][0], address, len(shape), dims)
        alive += [dims, buffer]
        addresses.append(ctypes.addressof(buffer))
    made = items(1, addresses)
    alive.append(made)
    return made


# DLPack, from dlpack.h.
Tensor = struct(
    "Tensor", data=c_void_p, device_type=c_int32, device_id=c_int32, ndim=c_int32, code=ctypes.c_uint8,
    bits=ctypes.c_uint8, lanes=ctypes.c_uint16, shape=POINTER(c_int64), strides=POINTER(c_int64),
    byte_offset=ctypes.c_uint64,
)  # fmt: skip
Managed = struct("Managed", tensor=Tensor, context=c_void_p, deleter=c_void_p)
Versioned = struct(
    "Versioned", major=c_uint32, minor=c_uint32, context=c_void_p, deleter=c_void_p, flags=ctypes.c_uint64,
    tensor=Tensor,
)  # fmt: skip
DLPACK_TYPES = {
    "bool": (6, 8), "int16": (0, 16), "uint8": (1, 8), "float16": (2, 16), "bfloat16": (4, 16), "float32": (2, 32),
    "complex64": (5, 64), "float8_e4m3fn": (10, 8),
}  # fmt: skip


def dlpack(capsule, versioned):
    """What is in a DLPack capsule, which stays its owner."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    address = pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor")
    managed = (Versioned if versioned else Managed).from_address(address)
    managed.capsule = capsule
    return managed


_USED = b"used_dltensor"  # a capsule keeps the address of its name, no copy


def take_dlpack(capsule):
    """Takes what is in a DLPack capsule of before version 1: the caller deletes it."""
    managed = dlpack(capsule, False)
    del managed.capsule
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, c_char_p]
    assert rename(capsule, _USED) == 0
    return managed
