"""`python -m jaxwarp`: what is here, the code of a kernel, and how fast it runs."""

from __future__ import annotations

import sys

from jaxwarp.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
