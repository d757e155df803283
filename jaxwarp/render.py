"""The names of Warp's renderers, which are not there: programs that import them run where they do not draw."""

from __future__ import annotations

from typing import Any, NoReturn

from jaxwarp.boundary import boundary as _boundary
from jaxwarp.boundary import missing_in as _missing_in


class UsdRenderer:
    """Warp's writer of USD stages. To make one is refused."""

    @_boundary
    def __init__(self, *args: Any, **options: Any) -> None:
        del args, options
        _refuse(type(self).__name__)


class OpenGLRenderer:
    """Warp's window. To make one is refused."""

    @_boundary
    def __init__(self, *args: Any, **options: Any) -> None:
        del args, options
        _refuse(type(self).__name__)


def _refuse(name: str) -> NoReturn:
    raise ImportError(f"{name}: jaxwarp has no renderers; take arrays out with numpy(), and draw or write them")


globals()["__getattr__"] = _missing_in(__name__)
