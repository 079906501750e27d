"""Keys of selectable items: one key per item, in every table and figure of a page."""

from binascii import crc32

from perfkit.analysis.model.matmul_rows import ProductRow
from perfkit.analysis.model.step import OpRow

_LONGEST = 32  # maximum characters of a key's name; longer ones end in a checksum
_LEVEL = "level"  # dots of a kernel with counters, one per memory level


def is_shortened(name: str) -> bool:
    """True if a key's name is shortened."""
    return len(name) > _LONGEST


def make_key(kind: str, name: str) -> str:
    """`kernel:NAME`, `op:NAME`, `module:PATH`, `phase:NAME`: all rows of that name."""
    if is_shortened(name):
        name = f"{name[:_LONGEST]}~{crc32(name.encode()):08x}"
    return f"{kind}:{name}"


def make_idle_key(cause: str) -> str:
    """The key of all idle time with one cause."""
    return make_key("idle", cause)


def make_memory_key(category: str) -> str:
    """The key of all blocks of a category."""
    return make_key("memory", category)


def make_row_key(row: OpRow) -> str:
    """The key of one row: the key of its name, a semicolon, and its part."""
    return f"{make_name_key(row)};{hash_row_part(row)}"


def make_name_key(row: OpRow) -> str:
    """The key of all rows with its name (for modules, the path)."""
    if row.kind == _LEVEL:
        return make_key("kernel", row.name.removesuffix(f" ({row.level})"))
    return make_key(row.kind, row.module or row.name if row.kind == "module" else row.name)


def hash_row_part(row: OpRow) -> str:
    """Eight hexadecimal digits that distinguish rows of one name: phase, module, shapes and op."""
    phase = "" if row.kind == "phase" else row.phase  # already the name, except for dots
    return _hash_parts(phase, row.module, row.shapes, row.op)


def make_product_key(row: ProductRow) -> str:
    """The key of the main kernel of a product or attention; on a CPU, of the op."""
    if not row.kernel:
        return make_key("op", row.name)
    return f"{make_key('kernel', row.kernel)};{_hash_parts(row.phase, '', row.shapes, row.name)}"


def _hash_parts(*parts: str) -> str:
    return f"{crc32(chr(0).join(parts).encode()):08x}"
