"""Functions of this process that machine code may call, by the names it has for them: given by who loads the native
library, when code is loaded. So code on disk and exported programs know names, and no addresses.
"""

from __future__ import annotations

PRINT = "jaxwarp_print"
PROVIDED: dict[str, int] = {}
"""The addresses. `void jaxwarp_print(const char* text, int64_t size, const int64_t* words, int64_t count)`: told.cc."""
