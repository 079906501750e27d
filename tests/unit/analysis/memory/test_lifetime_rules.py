"""What blocks are for by the phases they lived in."""

import pytest

from perfkit.core.allocations import ACTIVATION, GRADIENT, RECOMPUTED, TEMPORARY, UNKNOWN, FailedRequest, TimeBand
from tests.unit.analysis.memory.recording import OPS, Recording, check

FAILED = FailedRequest(bytes=1, message="CUDA out of memory")


STORIES = {
    "a step": """
        data: batch=clone>input collated=stack>temporary -collated
        forward: saved=gelu>activation passing=mul>temporary -passing
        backward: of_saved=gelu_backward>temporary gradient=mm>gradient -saved@NODE -of_saved@NODE
        optimizer: =>optimizer_state update=sqrt>temporary -update -gradient
        outside: -batch
    """,
    "freed after its phase before the next begins": """
        forward: block=gelu>temporary
        outside: -block
        backward:
    """,
    "gradients that are freed by the next step": """
        forward: gelu>activation
        backward: gradient=mm>gradient
        optimizer: update=sqrt>temporary -update
        forward: -gradient gelu>activation
        backward: mm>gradient
        optimizer: update=sqrt>temporary -update
    """,
    "gradients without an optimizer phase": """
        forward:
        backward: gradient=mm>gradient mm>gradient
        forward: -gradient
    """,
    "gradients of later microbatches are added to the first": """
        backward: first=mm>gradient
        forward:
        backward: second=mm>gradient -second@ACCUMULATE inside=ACCUMULATE>temporary -inside@ACCUMULATE
        optimizer: -first
    """,
    "what crosses from one microbatch to the next": """
        backward: dropped=mm>temporary reduced=mm>gradient
        forward: -dropped
        backward: -reduced@FSDP::post_backward_reduce
        optimizer: update=sqrt>temporary -update
    """,
    "an op that takes the address of a block did not free it": """
        backward: block=mm>temporary sum>gradient ~block@ACCUMULATE>gradient
        optimizer:
    """,
    "an optimizer within backward takes its gradients": """
        backward: gradient=mm>gradient update=sqrt>temporary -update@torch::autograd::Hook -gradient@ACCUMULATE
    """,
    "state of the optimizer and what its steps leave for a while": """
        optimizer: =>optimizer_state state=add*32>optimizer_state norm=linalg_vector_norm*8>temporary
        forward: -norm
        optimizer: -state state=add*32>optimizer_state norm=linalg_vector_norm*8>temporary
        forward: -norm
        optimizer: -state state=add*32>optimizer_state norm=linalg_vector_norm*8>temporary
        forward:
    """,
    "the norm that is alive when the recording ends is as those before": """
        forward:
        optimizer: norm=linalg_vector_norm*8>temporary update=sqrt>temporary -update
        forward: -norm
        optimizer: norm=linalg_vector_norm*8>temporary update=sqrt>temporary -update
        forward: -norm
        optimizer: norm=linalg_vector_norm*8>temporary update=sqrt>temporary -update
    """,
    "a cache that forward makes once is a buffer": """
        forward: cos/rotary>buffer block=cos/head>activation
        backward: -block@NODE
        optimizer: update=sqrt>temporary -update
    """
    + """
        forward: block=cos/head>activation
        backward: -block@NODE
        optimizer: update=sqrt>temporary -update
    """
    * 2,
    "what every step leaves, as losses in a list, is no cache": """
        forward: div>activation
        optimizer: update=sqrt>temporary -update
    """
    * 3,
    "outputs held until the next forward are activations": """
        forward: logits=addmm*100>activation
        optimizer: update=sqrt>temporary -update
        forward: new=addmm*101>activation -logits
        optimizer: update=sqrt>temporary -update
        forward: logits=addmm*102>activation -new
        optimizer: update=sqrt>temporary -update
    """,
    "what each layer of inference keeps, beside what the last has at the end": """
        forward: k0=mm/layers.0.k*100>retained_output passing=mul/layers.0.mlp*50>temporary -passing
        forward: k1=mm/layers.1.k*100>retained_output other=mul/layers.1.mlp*50>temporary sum/norm*8>activation
        outside: -k0 -k1 -other
    """.replace("\n        forward: k1", " k1"),
    "what each layer keeps for a backward pass are activations": """
        forward: k0=mm/layers.0.k*100>activation k1=mm/layers.1.k*100>activation
        backward: -k1@NODE -k0@NODE
    """,
    "outside of phases": """
        forward:
        outside: passing=add>temporary staying=add>unknown -passing
        backward: -staying
    """,
    "a forward pass that no call of a module marks": """
        outside: saved=div>activation moved=_to_copy>unknown of_no_op=>unknown
        backward: -saved@NODE -moved@NODE -of_no_op@NODE
    """,
    "without phases only what ops tell": """
        outside: within=convolution>temporary -within@aten::convolution
        outside: saved=gelu>activation gradient=mm>gradient other=mul>unknown mul>unknown
        outside: -saved@NODE -gradient@Optimizer.zero_grad#SGD.zero_grad -other@NODE
    """,
    "recomputation told by the module where ops are not known": """
        backward: inside=/blocks.0>recomputed_activation of_other_op=mm/blocks.0>temporary outside=>temporary
        then: -inside -of_other_op -outside
    """,
    "a regular end in backward leaves gradients": """
        backward: passing=mm>temporary gradient=mm>gradient sum>gradient -passing@NODE
        forward: -gradient
        backward: passing=mm>temporary gradient=mm>gradient sum>gradient -passing@NODE
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_block_is_for_what_its_life_tells(story: str) -> None:
    check(story)


def recomputing(r: Recording, *, module: str = "") -> tuple[int, ...]:
    """A backward phase in which a forward runs again; its blocks, of which the third passes."""
    r.phase("backward")
    begin = r.now
    gelu = r.make("aten::gelu", module=module)
    copy = r.make("aten::clone", module=module)
    passing = r.make("aten::mul", module=module)
    r.free(passing)
    r.make("aten::native_layer_norm", module=module)
    end = r.now
    r.bands += [TimeBand(kind="phase", name="backward", start_ns=begin, end_ns=end + 9)]
    if module:
        r.bands += [TimeBand(kind="module", name=module, start_ns=begin, end_ns=end)]
    of_activation = r.make("aten::gelu_backward", module=module)
    neutral = r.make("aten::clone", module=module)
    for block in (neutral, of_activation, copy, gelu, passing + 1):
        r.make("aten::mm")
        r.free(block, op=OPS["NODE"])
    return gelu, copy, passing, passing + 1, of_activation, neutral


def test_recomputation_told_by_the_bands_of_modules() -> None:
    r = Recording()
    blocks = recomputing(r, module="blocks.0")
    found = r.categories()
    assert [found[block] for block in blocks] == [RECOMPUTED, RECOMPUTED, TEMPORARY, RECOMPUTED, TEMPORARY, TEMPORARY]


def test_recomputation_told_by_ops_alone() -> None:
    r = Recording()
    blocks = recomputing(r)
    found = r.categories()
    assert [found[block] for block in blocks] == [RECOMPUTED, TEMPORARY, TEMPORARY, RECOMPUTED, TEMPORARY, TEMPORARY]


@pytest.mark.parametrize(
    "story",
    [
        "backward: block=cat>temporary mm>gradient -block",  # marked around its hooks
        "forward: block=gelu>temporary mul>activation -block",
    ],
)
def test_what_a_module_makes_is_recomputed_only_by_forward_ops_in_backward(story: str) -> None:
    check(story, bands=(TimeBand(kind="module", name="blocks.0", start_ns=0, end_ns=9),))


def step_that_fails_in_backward(*, told: str = "") -> Recording:
    r = Recording()
    r.failed = FAILED
    r.phase("forward")
    r.make("aten::gelu")
    r.phase("backward")
    r.make("aten::mm", category=told)
    r.make("aten::mm")
    r.make("aten::gelu")
    return r


@pytest.mark.parametrize(("told", "rest"), [("", UNKNOWN), (GRADIENT, TEMPORARY)])
def test_of_a_backward_that_failed_gradients_are_known_only_if_told(told: str, rest: str) -> None:
    found = step_that_fails_in_backward(told=told).categories()
    assert found == [ACTIVATION, told or UNKNOWN, rest, RECOMPUTED]


def test_of_a_failed_phase_blocks_are_as_their_like_in_steps_before() -> None:
    check(
        """
        backward: passing=mm/a>temporary gradient=mm/b>gradient -passing@NODE
        optimizer: -gradient
        backward: mm/a>temporary mm/b>gradient
        """,
        failed=FAILED,
    )


LAYERS = """
    forward: a=mul*100>activation x=cat*50>temporary -x b=mul*100>activation y=cat*50>temporary -y
    then: c=mul*100>activation z=cat*50>temporary !
"""


def test_what_the_exception_of_a_failed_request_frees_is_no_temporary() -> None:
    check(f"{LAYERS} then: -a -b -c -z", failed=FAILED)


def test_a_failed_request_that_the_program_survived_frees_activations_too() -> None:
    check(f"{LAYERS} then: -a -b -c -z d=mul*100>activation")


def test_frees_after_a_failed_request_and_another_allocation_are_the_programs() -> None:
    check("forward: a=gelu>temporary ! b=gelu>temporary -a c=mm*10>activation -b\nbackward: d=mm>gradient")


def test_what_autograds_graph_held_is_saved_for_backward_though_like_blocks_were_freed() -> None:
    check(
        """
        forward: o=mul>temporary -o p=mul>temporary -p q=mul>temporary -q r=mul>activation s=mul>temporary !
        then: -r@ReluBackward0 -s
        """,
        failed=FAILED,
    )


def test_a_graph_without_a_backward_pass_held_what_its_nodes_free() -> None:
    check("forward: a=mul>activation b=mm>activation c=cat>temporary -c -a@MulBackward0 -b@PyNode")


def test_of_a_forward_that_failed_nobody_knows_that_no_backward_would_follow() -> None:
    check("forward: sigmoid/1*100>activation sigmoid/2*100>activation sigmoid/3*100>activation", failed=FAILED)
