"""Demangles C++ names: `_ZN2at4NodeIfE3runEv` -> `at::Node<float>::run`.

Itanium C++ ABI, section 5.1 (names), without parameters. Unsupported names are unchanged.

No package does this better: `itanium-demangler` 1.1 (2022) spells literals and anonymous namespaces unlike c++filt,
`cxxfilt` 0.3 (2021) needs libstdc++, and `demangle` 0.6, whose answers are the same, is a beta of 39,000 lines.
"""

_BUILTIN = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
}
_SUFFIXES = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll"}
_TWO_LETTERS = {"Dh": "half", "Di": "char32_t", "Ds": "char16_t", "Dn": "std::nullptr_t", "Da": "auto"}
_STANDARD = {"Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string"}
_AROUND = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": ""}
_ANONYMOUS = "_GLOBAL__N_1"
_LONGEST = 10_000  # maximum characters of a part: nested back-references grow exponentially


def demangle_name(name: str) -> str:
    """The name without parameters, or `name` itself if it is not mangled or unsupported."""
    if not name.startswith("_Z"):
        return name
    try:
        return _NameReader(name[2:]).name() or name
    except (ValueError, RecursionError):
        return name


class _NameReader:
    """A position in a mangled name, and the substitution candidates."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.seen: list[str] = []
        self.arguments: list[str] = []

    def name(self) -> str:
        if self._take_prefix("N"):
            return self._read_nested()
        if self.text.startswith("Z", self.at):
            raise ValueError("local to a function")
        scope = "std::" if self._take_prefix("St") else ""
        if not scope and self._peek_next() == "S":
            plain = self._read_substitution()
        else:
            plain = scope + self._read_source_name()
            if self._peek_next() == "I":
                self._keep_part(plain)
        return plain + self._read_template_arguments() if self._peek_next() == "I" else plain

    def _keep_part(self, part: str) -> None:
        if len(part) > _LONGEST:
            raise ValueError(self.text)
        self.seen.append(part)

    def _peek_next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take_prefix(self, some: str) -> bool:
        if self.text.startswith(some, self.at):
            self.at += len(some)
            return True
        return False

    def _read_nested(self) -> str:
        while self._peek_next() in ("r", "V", "K"):
            self.at += 1
        name = ""
        while not self._take_prefix("E"):
            if self._peek_next() == "I":
                name += self._read_template_arguments()
            elif self._take_prefix("St"):
                name = f"std::{self._read_source_name()}"
            elif self._peek_next() == "S":
                name = self._read_substitution()
                continue  # already a candidate
            elif self._peek_next() == "T":
                name = self._read_parameter()
            else:
                part = self._read_source_name()
                name = f"{name}::{part}" if name else part
            if self._peek_next() != "E":
                self._keep_part(name)
        return name

    def _read_source_name(self) -> str:
        self._take_prefix("L")  # internal linkage
        digits = ""
        while self._peek_next().isdigit():
            digits += self._peek_next()
            self.at += 1
        if not digits:
            raise ValueError(self.text)
        end = self.at + int(digits)
        part, self.at = self.text[self.at : end], end
        if end > len(self.text):
            raise ValueError(self.text)
        while self._take_prefix("B"):  # an ABI tag
            part += f"[abi:{self._read_source_name()}]"
        return "(anonymous namespace)" if part == _ANONYMOUS else part

    def _read_substitution(self) -> str:
        """A back-reference: `S_` the first, `S0_` the second, in base 36."""
        for short, name in _STANDARD.items():
            if self._take_prefix(short):
                return name
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at + 1 : end], end + 1
        place = int(digits, 36) + 1 if digits else 0
        if place >= len(self.seen):
            raise ValueError(self.text)
        return self.seen[place]

    def _read_parameter(self) -> str:
        """A template parameter by position: `T_` the first, `T0_` the second."""
        end = self.text.index("_", self.at)
        digits, self.at = self.text[self.at + 1 : end], end + 1
        place = int(digits) + 1 if digits else 0
        if place >= len(self.arguments):
            raise ValueError(self.text)
        return self.arguments[place]

    def _read_template_arguments(self) -> str:
        self._take_prefix("I")
        arguments: list[str] = []
        while not self._take_prefix("E"):
            arguments += self._read_argument()
        self.arguments = arguments
        return f"<{', '.join(arguments)}>"

    def _read_argument(self) -> list[str]:
        """One argument, or those of a pack."""
        if self._take_prefix("J"):
            arguments: list[str] = []
            while not self._take_prefix("E"):
                arguments += self._read_argument()
            return arguments
        if self._take_prefix("L"):
            return [self._read_literal()]
        if self._peek_next() == "X":
            raise ValueError(self.text)
        return [self._read_type()]

    def _read_literal(self) -> str:
        if self._take_prefix("_Z"):
            name = self.name()
            self.at = self.text.index("E", self.at) + 1
            return name
        kind = self._read_type()
        end = self.text.index("E", self.at)
        value, self.at = self.text[self.at : end], end + 1
        value = f"-{value[1:]}" if value.startswith("n") else value
        if kind == "bool":
            return "true" if value == "1" else "false"
        return f"{value}{_SUFFIXES[kind]}" if kind in _SUFFIXES else f"({kind}){value}"

    def _read_type(self) -> str:
        letter = self._peek_next()
        if letter in _BUILTIN:
            self.at += 1
            return _BUILTIN[letter]
        if self.text[self.at : self.at + 2] in _TWO_LETTERS:
            self.at += 2
            return _TWO_LETTERS[self.text[self.at - 2 : self.at]]
        if letter in _AROUND:
            self.at += 1
            inner = self._read_type()
            around = f"{inner}{_AROUND[letter]}"
            self._keep_part(around)
            return around
        if letter == "S" and not self.text.startswith("St", self.at):
            builtin = self._read_substitution()
            if self._peek_next() == "I":
                builtin += self._read_template_arguments()
                self._keep_part(builtin)
            return builtin
        if letter == "T":
            parameter = self._read_parameter()
            self._keep_part(parameter)
            return parameter
        if letter == "N" or letter.isdigit() or letter == "S":
            named = self.name()
            self._keep_part(named)
            return named
        raise ValueError(self.text)
