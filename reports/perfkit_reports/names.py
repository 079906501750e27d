"""Shortens kernel names: C++ kernels have a thousand characters of namespaces, types and lambdas."""

import re
from functools import lru_cache

from perfkit_reports.demangle import demangle_name

_SIGNATURE = re.compile(r"<|[\w)]\(")  # not `Memcpy HtoD (Pageable -> Device)`, not `aten::mm`
_LONGEST_READ = 4000  # longer names would be cut anyway
_QUALIFIER = re.compile(r"(?:\(anonymous namespace\)|[A-Za-z_]\w*)::")
_RETURNS = re.compile(r"^(?:static |__global__ )*(?:void|bool|int|float|double)\s+")
# Template arguments for indexing, loading and storing, which do not identify a kernel.
_NOISE = re.compile(
    r"(std::)?[Aa]rray\b|(Trivial)?OffsetCalculator|Load(With|er)|Store(With|r)|(Tensor(Iterator|List|Info|Accessor))"
    r"|\w*Params$|\w*Metadata$|unsigned int$|int$|long$|\{lambda|lambda|char\b|operator"
)
_WRAPPERS = ("gpu_kernel_impl", "gpu_kernel_impl_nocast")  # wrappers: the wrapped functor is the kernel
_ELEMENT = re.compile(
    r"(float|double|half|__half|Half|BFloat16|Float8\w*|c10::\w+|unsigned char|bool|short|true|false)$"
)
_CAUSE = 32  # characters
_ARGUMENTS = 3
_DEPTH = 3
_OPENING, _CLOSING = "<({[", ">)}]"


@lru_cache(maxsize=4096)  # all tables of a report name the same kernels
def shorten_kernel(name: str, limit: int = 72) -> str:
    """`void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDA..., ...>(int, ...)` ->
    `vectorized_elementwise_kernel<4, GeluCUDAKernelImpl…>`: no return type, namespaces and parameters, few template
    arguments. Names that are no C++ signature are only shortened in the middle.
    """
    read = " ".join(demangle_name(name)[:_LONGEST_READ].split())
    if not _SIGNATURE.search(read):
        return shorten_middle(read, limit)
    return shorten_middle(_simplify_name(_RETURNS.sub("", read), _DEPTH) or read, limit)


def shorten_cause(name: str) -> str:
    """A part of a step or an op as a headline has room for."""
    return shorten_kernel(name, _CAUSE)


def shorten_middle(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning and the end, which distinguish names."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def shorten_modules(name: str) -> str:
    """`aten::mm in …/Block_3/Linear_5`: the last two of torch.profiler's module names, outermost first."""
    return re.sub(r"(?:[^/\s]+/)+(?=[^/\s]+/[^/\s]+)", "…/", name)


def _simplify_name(text: str, depth: int) -> str:
    """A name without qualifiers and parameters, with its distinctive template arguments."""
    bare = _QUALIFIER.sub("", text)
    end = next((place for place, letter in enumerate(bare) if letter in _OPENING), len(bare))
    head, tail = bare[:end].strip(), bare[end:]
    if not tail.startswith("<"):
        return head + ("…" if head and tail and depth < _DEPTH else "")
    if depth == 0:
        return f"{head}<…>"
    arguments = _split_arguments(tail)
    if head in _WRAPPERS and arguments:
        return _simplify_name(arguments[0], depth)
    telling = [argument for argument in arguments if not _NOISE.match(_QUALIFIER.sub("", argument))]
    if depth < _DEPTH:  # BinaryFunctor<float, float, float, MulFunctor<float>>: the inner functor is the operation
        telling = [argument for argument in telling if not _ELEMENT.match(argument)] or telling
    parts = [_simplify_name(argument, depth - 1) for argument in telling[:_ARGUMENTS]]
    if len(parts) < len(arguments):
        parts.append("…")
    return f"{head}<{', '.join(part for part in parts if part)}>"


def _split_arguments(text: str) -> list[str]:
    """The arguments of the bracket at the start of `text`; nested brackets stay whole."""
    arguments, depth, start = [], 0, 1
    for place, letter in enumerate(text):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING and text[place - 1] != "-":  # `->` closes nothing
            depth -= 1
            if depth == 0:
                arguments.append(text[start:place])
                break
        elif letter == "," and depth == 1:
            arguments.append(text[start:place])
            start = place + 1
    else:
        arguments.append(text[start:])  # of a name that was cut
    return [part.strip() for part in arguments if part.strip()]
