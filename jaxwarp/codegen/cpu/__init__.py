"""CPU code: LLVM vector code for many threads at once, see docs/design/0004-cpu-code.md."""

from jaxwarp.codegen.cpu.compile import CpuCode as CpuCode
from jaxwarp.codegen.cpu.compile import bind_pointer as bind_pointer
from jaxwarp.codegen.cpu.compile import compile_cpu as compile_cpu
from jaxwarp.codegen.cpu.compile import load_bitcode as load_bitcode
from jaxwarp.codegen.cpu.compile import target_key as target_key
from jaxwarp.codegen.cpu.compile import unload as unload
from jaxwarp.codegen.cpu.plan.copies import Copies as Copies
from jaxwarp.codegen.cpu.plan.copies import choose_copies as choose_copies
from jaxwarp.codegen.cpu.plan.copies import prices_without_copies as prices_without_copies
from jaxwarp.codegen.cpu.plan.cost import choose_cut as choose_cut
from jaxwarp.codegen.cpu.plan.cost import choose_grain as choose_grain
from jaxwarp.codegen.cpu.run import launch as launch
from jaxwarp.codegen.cpu.run import loaded as loaded
from jaxwarp.codegen.cpu.run import run_cpu as run_cpu
