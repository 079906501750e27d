"""Keys of everything that can be chosen on a page: one key for the same thing in every table and figure."""

from binascii import crc32

from perfkit.analysis.model.products import ProductRow
from perfkit.analysis.model.step import OpRow

_LONGEST = 32  # characters of a key's name; a longer one ends in a checksum of the whole
_LEVEL = "level"  # dots of a counted kernel, one for each level of memory


def is_shortened(name: str) -> bool:
    """Whether a key has not the whole of a name."""
    return len(name) > _LONGEST


def make_key(kind: str, name: str) -> str:
    """`kernel:NAME`, `op:NAME`, `module:PATH`, `phase:NAME`: all of that name."""
    if is_shortened(name):
        name = f"{name[:_LONGEST]}~{crc32(name.encode()):08x}"
    return f"{kind}:{name}"


def make_idle_key(cause: str) -> str:
    """The key of all idle time of a cause."""
    return make_key("idle", cause)


def make_row_key(row: OpRow) -> str:
    """The key of one row: that of its name, and after a semicolon its part."""
    return f"{make_name_key(row)};{hash_row_part(row)}"


def make_name_key(row: OpRow) -> str:
    """The key of all rows of its name; of a module that is the path."""
    if row.kind == _LEVEL:
        return make_key("kernel", row.name.removesuffix(f" ({row.level})"))
    return make_key(row.kind, row.module or row.name if row.kind == "module" else row.name)


def hash_row_part(row: OpRow) -> str:
    """What tells rows of one name apart, in eight hexadecimal digits: phase, module, shapes and op."""
    phase = "" if row.kind == "phase" else row.phase  # it is its name, but not of a dot
    return _hash_parts(phase, row.module, row.shapes, row.op)


def make_product_key(row: ProductRow) -> str:
    """The key of the kernel's row that does most of a product or attention; on a CPU that of the op."""
    if not row.kernel:
        return make_key("op", row.name)
    return f"{make_key('kernel', row.kernel)};{_hash_parts(row.phase, '', row.shapes, row.name)}"


def _hash_parts(*parts: str) -> str:
    return f"{crc32(chr(0).join(parts).encode()):08x}"
