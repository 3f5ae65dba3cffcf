"""Tokenizers of captions by the names under which a release pins them."""

import re
from collections.abc import Callable, Mapping

#: From a text to its tokens, none of which holds white space.
Tokenizer = Callable[[str], list[str]]

_SYMBOL = re.compile(r"([!-&(-+:-@\[-`{-~/])")
_POINT_OUTSIDE_NUMBER = re.compile(r"((?<![0-9])[.,]|[.,](?![0-9]))")
_DASH_AFTER_DIGIT = re.compile(r"(?<=[0-9])-")


def tokenize(text: str) -> list[str]:
    """Return the tokens of a caption: lower case, symbols apart, points and commas apart unless inside a number.

    The split of ``13a`` (mteval-v13a), the tokenizer ``13a-lower``.

    Example:
        >>> tokenize("QPSK at 2.4 GHz, SNR of -10 dB.")
        ['qpsk', 'at', '2.4', 'ghz', ',', 'snr', 'of', '-10', 'db', '.']
    """
    text = _SYMBOL.sub(r" \1 ", text)
    text = _POINT_OUTSIDE_NUMBER.sub(r" \1 ", text)
    return _DASH_AFTER_DIGIT.sub(" - ", text).lower().split()


DEFAULT_TOKENIZER = "13a-lower"

TOKENIZERS: Mapping[str, Tokenizer] = {DEFAULT_TOKENIZER: tokenize}


def tokenizer_of(name: str) -> Tokenizer:
    """Return the tokenizer of that name.

    Raises:
        ValueError: no tokenizer has that name.
    """
    if name not in TOKENIZERS:
        raise ValueError(f"tokenizer: {name!r} is not known, expected {', '.join(TOKENIZERS)}")
    return TOKENIZERS[name]
