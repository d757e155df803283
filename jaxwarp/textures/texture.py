"""`Texture1D`, `Texture2D` and `Texture3D`: texels and how they are sampled, as a value of JAX and of kernels."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import dataclasses
import math
import operator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import jax
import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.living import id_of
from jaxwarp.arrays.ids.tables import give_ids
from jaxwarp.arrays.moved import device_for, fields_on
from jaxwarp.boundary import boundary, called, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.devices import CPU
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.textures import contents
from jaxwarp.textures.modes import TextureAddressMode, TextureFilterMode
from jaxwarp.types import HANDLE, Array, Named, set_fields

_CLAMP = TextureAddressMode.CLAMP


def _static(default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"static": True})


@wp.struct
class Texture:
    """An image that kernels sample at any place: the base class of `Texture1D`, `Texture2D` and `Texture3D`.

    A texture is a struct: a pytree in JAX, and an argument of kernels, annotated with its class. Making one is a pure
    function, which works under `jit` and `vmap`. Samples have derivatives with respect to coordinates, and with respect
    to texels if these are floats.

    Unsigned integers of 8 and 16 bits are sampled as numbers from 0 to 1, signed ones from -1 to 1. Integers of 32 bits
    are converted to float32. Floats are sampled as they are. Texels are in the order of images: (height, width,
    channels).

    Attributes:
        texels: an array of shape (n, channels), with all mip levels one after another. `data` is the first level in its
            own shape.
        levels: a row (width, height, depth, first texel) for each mip level. None if there is only one level.

    Args:
        data: an array of shape (width,), (height, width) or (depth, height, width), with one more axis for 2 or 4
            channels. Its type is float32, float16, or an integer of 8, 16 or 32 bits. Arrays outside of JAX may have
            elements vec2 or vec4 instead of the last axis. The data is copied. None: zeros of the following sizes.
        width, height, depth: the sizes without data; with data they must agree.
        num_channels, dtype: the same for the number of channels and the type.
        filter_mode: a `TextureFilterMode`. The default is LINEAR. Integers of 32 bits support CLOSEST only.
        address_mode: a `TextureAddressMode` for all axes, or a tuple with one for each axis.
        address_mode_u, address_mode_v, address_mode_w: the mode of one axis.
        normalized_coords: if True, coordinates go from 0 to 1; otherwise to width, height and depth.
        num_mip_levels: the number of mip levels, each half the size of the one before. 0: down to a single texel.
        mip_filter_mode: a `TextureFilterMode` between mip levels.
        device: the device outside of JAX, "cpu" or a GPU. None: that of `data` if it is an array of jaxwarp, otherwise
            the current device.

    Raises:
        KernelTypeError, KernelValueError: the data or an option has another type, shape or value.
    """

    texels: wp.array2d[Any]
    levels: wp.array[wp.vec4i]
    width: int = _static(1)
    height: int = _static(1)
    depth: int = _static(1)
    filter_mode: int = _static(TextureFilterMode.LINEAR)
    mip_filter_mode: int = _static(TextureFilterMode.LINEAR)
    address_mode_u: int = _static(_CLAMP)
    address_mode_v: int = _static(_CLAMP)
    address_mode_w: int = _static(_CLAMP)
    normalized_coords: bool = _static(True)
    num_mip_levels: int = _static(1)

    ndim: ClassVar[int] = 0

    if TYPE_CHECKING:  # checkers would make it of the fields

        def __init__(  # noqa: PLR0913 - as Warp has it
            self,
            data: Any = None,
            width: int = 0,
            height: int = 0,
            depth: int = 0,
            num_channels: int = 0,
            dtype: Any = None,
            filter_mode: Any = None,
            address_mode: Any = ...,
            address_mode_u: Any = None,
            address_mode_v: Any = None,
            address_mode_w: Any = None,
            normalized_coords: bool = True,
            num_mip_levels: int = 1,
            mip_filter_mode: Any = None,
            device: Any = None,
            surface_access: bool = False,
            cuda_array: int = 0,
        ) -> None: ...

    @property
    def id(self) -> Any:
        """The id to pass to a kernel outside of JAX. In JAX it is the texture itself."""
        return id_of(self)

    @property
    def device(self) -> Any:
        """The device of the texels if they are outside of JAX; otherwise the CPU."""
        return self.texels.device if isinstance(self.texels, HostArray) else CPU

    @property
    def dtype(self) -> Any:
        """The type of the texels, such as `wp.uint8`."""
        dtype = self.texels.dtype
        return dtype if isinstance(self.texels, LiveArray) else getattr(wp, np.dtype(dtype).name)

    @property
    def num_channels(self) -> int:
        """The number of channels: 1, 2 or 4."""
        return self.texels.shape[-1]

    @property
    def is_mipmapped(self) -> bool:
        """True if the texture has more than one mip level."""
        return self.num_mip_levels > 1

    @property
    def data(self) -> Any:
        """The texels of the first mip level: (height, width, channels), or with one or three sizes."""
        sizes = (self.width, self.height, self.depth)[: self.ndim]
        batch, first = tuple(self.texels.shape[:-2]), self.texels
        if self.is_mipmapped:
            count = math.prod(sizes)
            first = first[:count] if isinstance(first, LiveArray) else first[..., :count, :]
        image: Any = first
        return image.reshape(*batch, *reversed(sizes), self.num_channels)

    @boundary
    def replace(self, data: Any) -> Any:
        """Make a texture of other data with the same modes.

        Raises:
            KernelTypeError, KernelValueError: the data does not fit this class of texture.
        """
        options = {name: getattr(self, name) for name in _OPTIONS}
        levels = self.num_mip_levels if self.is_mipmapped else 1
        kind: Any = type(self)
        return kind(data, num_mip_levels=levels, device=self.device, **options)

    @boundary
    def copy_from(self, src: Any) -> None:
        """Overwrite the texels with those of another texture or an array, outside of JAX.

        Raises:
            KernelTypeError: the texture holds JAX arrays, or has mip levels.
            KernelValueError: the source has another shape or type.
        """
        if isinstance(self.texels, jax.Array):
            raise KernelTypeError("copy_from: a texture of JAX never changes", hint="texture = texture.replace(data)")
        given = src.data if isinstance(src, Texture) else src
        image = self._fitting("copy_from", src, given, "source")
        if self.device.is_cpu:
            set_fields(self, texels=contents.texels_of(given, image))
            return
        numbers = contents.numbers_of(given).contiguous() if isinstance(given, HostArray) else np.asarray(given)
        texels: Any = self.texels
        own = texels if texels.is_writable else texels.new_like()  # others are found by the id
        own.assign(numbers.reshape(*own.shape))
        set_fields(self, texels=own)

    @boundary
    def copy_to(self, dst: Any) -> None:
        """Copy the texels to another texture, or to an array outside of JAX.

        Raises:
            KernelTypeError: the destination holds JAX arrays, or a texture has mip levels.
            KernelValueError: the destination has another shape or type.
        """
        if isinstance(dst, Texture):
            dst.copy_from(self)
            return
        if isinstance(dst, jax.Array):
            raise KernelTypeError("copy_to: an array of JAX never changes", hint="read texture.data")
        self._fitting("copy_to", dst, dst, "destination")
        if isinstance(dst, HostArray):
            numbers = contents.numbers_of(dst)
            numbers.assign(self.texels.reshape(*numbers.shape))
        elif isinstance(dst, LiveArray):
            dst.assign(np.asarray(self.texels).reshape(dst.numpy().shape))
        else:
            dst[...] = np.asarray(self.texels).reshape(dst.shape)

    def _fitting(self, where: str, other: Any, given: Any, role: str) -> contents.Image:
        """Return the properties of `given`, an array or a texture. Refuse it if they are not those of this texture."""
        if self.is_mipmapped or (isinstance(other, Texture) and other.is_mipmapped):
            raise KernelTypeError(
                f"{where} is not there for textures with mip levels", hint="make another texture: texture.replace(data)"
            )
        image, sizes = contents.image_of(where, given, self.ndim), (self.width, self.height, self.depth)[: self.ndim]
        if image != (sizes, self.num_channels, self.dtype.name):
            raise _misfit(self, role, other, image)
        return image

    @property
    def cuda_array(self) -> NoReturn:
        """Unavailable: a texture has no handles."""
        raise _no_handle("cuda_array")

    @property
    def cuda_texture(self) -> NoReturn:
        """Unavailable: a texture has no handles."""
        raise _no_handle("cuda_texture")

    @property
    def cuda_surface(self) -> NoReturn:
        """Unavailable: a texture has no handles."""
        raise _no_handle("cuda_surface")


@wp.struct
class Texture1D(Texture):
    __doc__ = Texture.__doc__
    ndim: ClassVar[int] = 1

    if TYPE_CHECKING:
        __init__ = Texture.__init__


@wp.struct
class Texture2D(Texture):
    __doc__ = Texture.__doc__
    ndim: ClassVar[int] = 2

    if TYPE_CHECKING:
        __init__ = Texture.__init__


@wp.struct
class Texture3D(Texture):
    __doc__ = Texture.__doc__
    ndim: ClassVar[int] = 3

    if TYPE_CHECKING:
        __init__ = Texture.__init__


def _misfit(texture: Texture, role: str, other: Any, image: contents.Image) -> KernelValueError:
    """The error for a copy between a texture and what has other sizes, channels or another type."""
    own, name = _shape(texture), image.type_name
    hint = "make another texture: texture.replace(data)"
    if isinstance(other, Texture):
        if (other.width, other.height, other.depth) != (texture.width, texture.height, texture.depth):
            return KernelValueError(
                f"Incompatible texture shapes for copy: destination shape={own}, source shape={_shape(other)}",
                hint=hint,
            )
        return KernelValueError(
            f"Incompatible texture data types for copy: destination dtype={texture.dtype.name}, source dtype={name}, "
            f"destination channels={texture.num_channels}, source channels={other.num_channels}",
            hint=hint,
        )
    if image.sizes != (texture.width, texture.height, texture.depth)[: texture.ndim]:
        return KernelValueError(
            f"Incompatible array shape for copy: texture shape={own}, {role} shape={tuple(other.shape)}", hint=hint
        )
    return KernelValueError(
        f"Incompatible array data type for copy: texture dtype={texture.dtype.name}, {role} dtype={name}, "
        f"texture channels={texture.num_channels}, {role} channels={image.channels}",
        hint=hint,
    )


_ADDRESS_MODES = ("address_mode_u", "address_mode_v", "address_mode_w")
_OPTIONS = ("filter_mode", "mip_filter_mode", *_ADDRESS_MODES, "normalized_coords")


def _no_handle(name: str) -> KernelTypeError:
    return KernelTypeError(
        f"Texture: {name} is only supported for CUDA textures, and textures here are arrays, also on GPUs",
        hint="texture.texels is an array, which can be shared by DLPack",
    )


def _shape(texture: Texture) -> tuple[int, ...]:
    """Return the shape that Warp gives a texture: without an axis for a single channel."""
    return tuple(texture.data.shape)[: texture.ndim + (texture.num_channels > 1)]


@boundary
@called("Texture")
def _init(  # noqa: PLR0913 - as Warp has it
    self: Texture,
    data: Any = None,
    width: int = 0,
    height: int = 0,
    depth: int = 0,
    num_channels: int = 0,
    dtype: Any = None,
    filter_mode: Any = None,
    address_mode: Any = _CLAMP,
    address_mode_u: Any = None,
    address_mode_v: Any = None,
    address_mode_w: Any = None,
    normalized_coords: bool = True,
    num_mip_levels: int = 1,
    mip_filter_mode: Any = None,
    device: Any = None,
    surface_access: bool = False,
    cuda_array: int = 0,
) -> None:
    where = type(self).__name__
    if type(self) is Texture:
        raise KernelTypeError("Texture: expected one of its classes", hint="Texture1D, Texture2D or Texture3D")
    if surface_access or cuda_array:
        raise _no_handle("surface_access" if surface_access else "cuda_array")
    place = device_for(device, where, data)
    numbers = {"width": width, "height": height, "depth": depth, "num_channels": num_channels}
    width, height, depth, num_channels = (_count(where, name, value) for name, value in numbers.items())
    num_mip_levels = _count(where, "num_mip_levels", num_mip_levels)
    if not isinstance(normalized_coords, (bool, np.bool_)):
        raise KernelTypeError(
            f"{where}: normalized_coords: expected True or False, got {normalized_coords!r}", hint="leave it out: True"
        )
    asked = (width, height, depth)[: self.ndim]
    texels, sizes = _texels(where, data, self.ndim, asked, num_channels, dtype)
    is_exact = contents.is_integer32(texels.dtype if not isinstance(texels, LiveArray) else np.float32)
    between = contents.level_sizes(where, sizes, num_mip_levels)
    filters = (
        _filter_mode(where, "filter mode", "filter_mode", filter_mode, is_exact, True),
        _filter_mode(where, "mip filter mode", "mip_filter_mode", mip_filter_mode, is_exact, len(between) > 1),
    )
    given = (address_mode_u, address_mode_v, address_mode_w)
    modes = [_address_mode(where, address_mode, given[k], k) if k < self.ndim else _CLAMP for k in range(3)]
    levels = None
    if len(between) > 1:
        texels, levels = contents.with_levels(where, texels, between)
    texels = texels.to(place) if isinstance(texels, HostArray) else texels
    self.__dict__.update(fields_on(type(self), {"texels": texels, "levels": levels}, place))
    self.__dict__.update(zip(("width", "height", "depth"), (*sizes, 1, 1), strict=False))
    self.__dict__.update(filter_mode=filters[0], mip_filter_mode=filters[1])
    self.__dict__.update(zip(_ADDRESS_MODES, modes, strict=True))
    self.__dict__.update(normalized_coords=bool(normalized_coords), num_mip_levels=len(between))


# Found by its id, a texture has texels of one type, and the modes and sizes that it has when the kernel runs.
_NAMED = Named(
    frozenset(("levels",)),
    {"width": 1, "height": 1, "depth": 1, "num_mip_levels": 1, "texels": 1},
    {"texels": Array(wp.float32, 2)},
    contents.decoded,
)
for _kind in (Texture1D, Texture2D, Texture3D):
    give_ids(_kind, _NAMED)

for _kind in (Texture, Texture1D, Texture2D, Texture3D):
    setattr(_kind, HANDLE, True)
    _kind.__init__ = _init
    setattr(_kind, "_HINT", "make another texture: texture.replace(data)")  # noqa: B010 - no type knows it
    guarded(_kind)


def _count(where: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise KernelTypeError(f"{where}: {name}: expected an integer, got {value!r}", hint="leave it out") from None


def _texels(
    where: str, data: Any, ndim: int, asked: tuple[int, ...], channels: int, dtype: Any
) -> tuple[Any, tuple[int, ...]]:
    """Return the texels and the sizes of the data, or of zeros if there is none.

    Refuse data whose sizes or channels differ from those asked for, if these are not 0, or whose type is not `dtype`.
    """
    if data is None:
        return contents.zeros(where, asked, channels, dtype), asked
    image = contents.image_of(where, data, ndim)
    expected = (*asked, channels)
    for name, want, got in zip(
        (*("width", "height", "depth")[:ndim], "num_channels"), expected, (*image.sizes, image.channels), strict=True
    ):
        if want not in (0, got):
            raise KernelValueError(f"{where}: {name}: expected {want}, but the data has {got}", hint="leave it out")
    name = contents.name_of(dtype)
    if dtype is not None and name != image.type_name:
        raise KernelValueError(
            f"{where}: dtype: expected {name}, but the data has {image.type_name}", hint="leave it out"
        )
    return contents.texels_of(data, image), image.sizes


def _filter_mode(where: str, what: str, name: str, mode: Any, is_exact: bool, is_used: bool) -> TextureFilterMode:
    if mode is None:
        return TextureFilterMode.CLOSEST if is_exact else TextureFilterMode.LINEAR
    try:
        found = TextureFilterMode(mode)
    except (TypeError, ValueError):
        raise KernelValueError(
            f"{where}: {name}: Invalid texture {what}: {mode!r}", hint="TextureFilterMode.CLOSEST or LINEAR"
        ) from None
    if is_exact and is_used and found != TextureFilterMode.CLOSEST:
        raise KernelValueError(
            f"{where}: {name}: integers of 32 bits are not interpolated, expected CLOSEST", hint="leave it out"
        )
    return found


def _address_mode(where: str, common: Any, own: Any, axis: int) -> TextureAddressMode:
    mode = own
    if own is None:
        mode = common
        if isinstance(common, tuple):
            mode = common[axis] if axis < len(common) else _CLAMP
    try:
        return TextureAddressMode(_CLAMP if mode is None else mode)
    except (TypeError, ValueError):
        raise KernelValueError(
            f"{where}: {_ADDRESS_MODES[axis]}: Invalid texture address mode: {mode!r}",
            hint="TextureAddressMode.WRAP, CLAMP, MIRROR or BORDER",
        ) from None
