"""CUDA C++ from the IR, compiled by NVRTC.

code = print_cuda(prepare(kernel))          text, symbol, geometry
code = code_for(prepare(kernel), ...)       the same for a launch, with its extents
compile_cuda(code, default_archs())         cubins (and PTX) for the image of a launch
ptx(code, 90), resources(code, 90)          to look at
"""

from jaxwarp.codegen.cuda.compile import DEFAULT_ARCHITECTURES as DEFAULT_ARCHITECTURES
from jaxwarp.codegen.cuda.compile import Resources as Resources
from jaxwarp.codegen.cuda.compile import architecture as architecture
from jaxwarp.codegen.cuda.compile import compile_cuda as compile_cuda
from jaxwarp.codegen.cuda.compile import default_archs as default_archs
from jaxwarp.codegen.cuda.compile import ptx as ptx
from jaxwarp.codegen.cuda.compile import resources as resources
from jaxwarp.codegen.cuda.emit import CudaCode as CudaCode
from jaxwarp.codegen.cuda.emit import print_cuda as print_cuda
from jaxwarp.codegen.cuda.occupancy import choose_block as choose_block
from jaxwarp.codegen.cuda.occupancy import most_shared_bytes as most_shared_bytes
from jaxwarp.codegen.cuda.versions import code_for as code_for
