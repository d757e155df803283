"""Random programs of launches, copies and fills on parts of arrays; `make fuzz` runs more of them."""

import launch_programs
import pytest
from kernels_strategy import RandomPick


@pytest.mark.parametrize("seed", range(12))
def test_programs_do_what_numpy_does(seed):
    launch_programs.check(RandomPick(seed))


def test_the_generator_reaches_all_steps():
    programs = [launch_programs.program(RandomPick(seed), tuple(launch_programs.PARTS)) for seed in range(60)]
    text = "\n".join(str(step) for steps in programs for step in steps)
    for needed in (*launch_programs.KERNELS, *launch_programs.PARTS, "copy", "assign", "fill", "zeros", "clone"):
        assert needed in text
