"""Names of Warp's private modules that programs use: each stands for what is public here, and nothing more is here."""

from jaxwarp._src import types as types
