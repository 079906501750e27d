"""What can be chosen on a page: one key for the same thing in every table and figure."""

from binascii import crc32

from perfkit.analysis.model.products import ProductRow
from perfkit.analysis.model.step import OpRow

_LONGEST = 32  # characters of a key's name; a longer one ends in a checksum of the whole
_LEVEL = "level"  # dots of a counted kernel, one for each level of memory


def shortened(name: str) -> bool:
    """Whether a key has not the whole of a name."""
    return len(name) > _LONGEST


def key(kind: str, name: str) -> str:
    """`kernel:NAME`, `op:NAME`, `module:PATH`, `phase:NAME`: all of that name."""
    if shortened(name):
        name = f"{name[:_LONGEST]}~{crc32(name.encode()):08x}"
    return f"{kind}:{name}"


def idle_key(cause: str) -> str:
    """The key of all idle time of a cause."""
    return key("idle", cause)


def key_of(row: OpRow) -> str:
    """The key of one row: that of its name, and after a semicolon its part."""
    return f"{name_key(row)};{part_of(row)}"


def name_key(row: OpRow) -> str:
    """The key of all rows of its name; of a module that is the path."""
    if row.kind == _LEVEL:
        return key("kernel", row.name.removesuffix(f" ({row.level})"))
    return key(row.kind, row.module or row.name if row.kind == "module" else row.name)


def part_of(row: OpRow) -> str:
    """What tells rows of one name apart, in eight hexadecimal digits: phase, module, shapes and op."""
    phase = "" if row.kind == "phase" else row.phase  # it is its name, but not of a dot
    return _part(phase, row.module, row.shapes, row.op)


def key_of_product(row: ProductRow) -> str:
    """The key of the kernel's row that does most of a product or attention; on a CPU that of the op."""
    if not row.kernel:
        return key("op", row.name)
    return f"{key('kernel', row.kernel)};{_part(row.phase, '', row.shapes, row.name)}"


def _part(*parts: str) -> str:
    return f"{crc32(chr(0).join(parts).encode()):08x}"
